"""The same class graded by stock nbgrader and by this course's autograder, in one run: `make bench`.

Both grade the same notebooks, all of them solved. Stock nbgrader runs all cells in a kernel, one notebook after the
other. Two things favour it: its hidden tests only repeat the visible ones, and `--bare` removes demonstrations and
figures from its notebooks. Ours are graded in the sandbox, with hidden cases, gradebook and feedback pages.

Compare the ratios. CPU time includes the command's descendants, even those that outlive their parent, but not the
processes in our sandbox, because its zygote does not wait for them. So CPU time cannot compare the two graders.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil

# nbgrader starts `alembic` by name.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
ROOT = Path(__file__).resolve().parents[1]
UNITS = ("02_scaled_scores", "04_multi_head")
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.DOTALL)
SOLVED = re.compile(r"^\s*### (BEGIN|END) SOLUTION\n?", re.MULTILINE)
STOCK_CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "stock"
c.Execute.timeout = 120
"""


@dataclass(frozen=True)
class Cost:
    """The cost of one run: seconds on the clock, CPU-seconds of all its processes, and peak memory in MiB."""

    wall: float
    cpu: float
    memory: float = 0.0


def measure(line: Sequence[str], folder: Path) -> Cost:
    """Run a command to its end and return its cost."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before, started = _used(), time.monotonic()
    process = subprocess.Popen(
        line, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    most = _Memory(process.pid)
    words = process.communicate()[1]
    wall = time.monotonic() - started
    if process.returncode:
        raise SystemExit(f"bench: {' '.join(map(str, line))} failed: {words.strip().splitlines()[-1:]}")
    memory = most.stop()
    _reap()
    return Cost(wall, _used() - before, memory)


def _used() -> float:
    """Return the CPU-seconds of all descendants that have ended and were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def adopt() -> None:
    """Make this process adopt descendants that outlive their parent, so that their CPU time is counted."""
    PR_SET_CHILD_SUBREAPER = 36
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("bench: this kernel lets no process adopt others; Linux is needed")


def _reap(patience: float = 5.0) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            time.sleep(0.05)


class _Memory(threading.Thread):
    """Records the peak memory of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._process, self._most, self._done = psutil.Process(pid), 0.0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._done.wait(0.5):
            total = 0
            try:
                for process in [self._process, *self._process.children(recursive=True)]:
                    total += process.memory_full_info().pss
            except psutil.Error:
                continue
            self._most = max(self._most, total / 2**20)

    def stop(self) -> float:
        self._done.set()
        self.join()
        return self._most


# ---------------------------------------------------------------------------------------------------------------------
# The two courses


def stock_course(folder: Path, students: int, bare: bool) -> Path:
    """Make a course folder with a class for stock nbgrader. bare: without demonstrations and figures."""
    folder.mkdir(parents=True)
    (folder / "nbgrader_config.py").write_text(STOCK_CONFIG, encoding="utf-8")
    for unit in UNITS:
        notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
        notebook.cells = [c for c in notebook.cells if not bare or "demo" not in c.metadata.get("tags", [])]
        for cell in notebook.cells:
            visible = HIDDEN.sub("", cell.source)
            cell.source = HIDDEN.sub(lambda _, again=visible: again, cell.source)
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        _write(notebook, folder / "source" / unit)
        for name in (f"student{index:04d}" for index in range(students)):
            handed = nbformat.from_dict(notebook)
            for cell in handed.cells:
                cell.source = SOLVED.sub("", cell.source)
            _write(handed, folder / "submitted" / name / unit)
        _nbgrader(folder, "generate_assignment", unit)
    return folder


def our_course(folder: Path, students: int) -> Path:
    """Make our course folder with the same class, from the notebooks that students get."""
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    for unit in UNITS:
        for kind in ("solutions", "notebooks"):
            shutil.copytree(ROOT / kind / unit, folder / kind / unit)
        notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
        for cell in notebook.cells:
            cell.source = SOLVED.sub("", HIDDEN.sub("", cell.source))
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        for name in (f"student{index:04d}" for index in range(students)):
            _write(notebook, folder / "grading" / "submitted" / name / unit)
    return folder


def _write(notebook: nbformat.NotebookNode, folder: Path) -> None:
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{folder.name}.ipynb")


def _nbgrader(folder: Path, *words: str) -> None:
    line = [sys.executable, "-m", "nbgrader", *words]
    subprocess.run(line, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stock(students: int, scratch: Path, bare: bool) -> Cost:
    """Grade a class with stock nbgrader, both units."""
    folder = stock_course(scratch, students, bare)
    costs = [measure([sys.executable, "-m", "nbgrader", "autograde", unit], folder) for unit in UNITS]
    graded = len(list((folder / "autograded").glob("*/*/*.ipynb")))
    if graded != students * len(UNITS):
        raise SystemExit(f"bench: stock nbgrader graded {graded} notebooks of {students * len(UNITS)}")
    return Cost(sum(c.wall for c in costs), sum(c.cpu for c in costs), max(c.memory for c in costs))


def ours(students: int, workers: int, scratch: Path) -> Cost:
    """Grade the same class with this course's autograder."""
    folder = our_course(scratch, students)
    line = [sys.executable, "-m", "autograder", "--course", str(folder), "grade", "--workers", str(workers), "--json"]
    cost = measure(line, folder)
    verdicts = [json.loads(path.read_text()) for path in (folder / "grading" / "verdicts").glob("*/*.json")]
    right = sum(all(v["verdict"] == "right" for v in found["verdicts"]) for found in verdicts)
    if right != students * len(UNITS):
        raise SystemExit(f"bench: {right} notebooks of {students * len(UNITS)} were found right")
    return cost


# ---------------------------------------------------------------------------------------------------------------------
# Stages


def stages(students: int, scratch: Path) -> dict[str, float]:
    """Return the seconds per notebook in each stage, in one process and one sandbox, without the start."""
    from autograder.gradebook import gradebook_writer as gradebook
    from autograder.grading import one_submission as grading
    from autograder.grading import submission_jobs, whole_class
    from autograder.pages import feedback_page
    from autograder.reading.course_contents import Course
    from autograder.running import submission_session as room

    spent: dict[str, float] = {}

    def timed(name: str, owner: object, attribute: str) -> None:
        plain: Callable = getattr(owner, attribute)

        def call(*args: object, **kwargs: object) -> object:
            started = time.perf_counter()
            try:
                return plain(*args, **kwargs)
            finally:
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - started

        setattr(owner, attribute, call)

    folder, challenge = our_course(scratch, students), submission_jobs.challenge_of(1)
    started = time.perf_counter()
    for unit in UNITS:
        challenge.unit(unit)
    drawn = time.perf_counter() - started
    course, handed = Course(folder), whole_class.handed_in(folder)
    made = [whole_class.job_of(course, item, challenge.seed, whole_class.Limits()) for item in handed]
    started = time.perf_counter()
    submission_jobs.run(made[0])
    opened = time.perf_counter() - started
    timed("run the cells", room.Session, "__enter__")
    timed("call the functions", room.Session, "ask")
    timed("judge, with the calls", grading, "ask_and_judge")
    timed("feedback page", feedback_page.FeedbackPages, "page")
    timed("gradebook, with the page", gradebook.Recorder, "record")
    with gradebook.Recorder(folder) as recorder:
        recorder.record(submission_jobs.run(made[0]))
        recorder.record(submission_jobs.run(made[-1]))
        spent.clear()
        started = time.perf_counter()
        for job in made:
            recorder.record(submission_jobs.run(job))
        total = (time.perf_counter() - started) / len(made)
    submission_jobs.close_sandboxes()
    per = {name: seconds / len(made) for name, seconds in spent.items()}
    per["judge"] = per.pop("judge, with the calls") - per["call the functions"]
    per["gradebook"] = per.pop("gradebook, with the page") - per["feedback page"]
    per["reading, writing, the rest"] = total - sum(per.values())
    return {"start: cases and references": drawn, "start: sandbox": opened, **per}


# ---------------------------------------------------------------------------------------------------------------------
# The report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.split("\n")[0])
    parser.add_argument("--students", type=int, default=6, help="the class that both grade; two notebooks each")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=int, nargs="*", default=[10, 100, 1000], help="notebooks, for ours alone")
    parser.add_argument("--bare", action="store_true", help="stock's notebooks without demonstrations and figures")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args(arguments)
    cores = os.cpu_count() or 1
    adopt()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        load = os.getloadavg()[0]
        print(f"{cores} cores, {load:.1f} of them busy with other things; medians of {options.repeats}.")
        figures = _compare(options, scratch, cores)
        figures["scale"] = _scale(options, scratch, cores)
        figures["stages"] = stages(8, scratch / "stages")
        total = sum(value for name, value in figures["stages"].items() if not name.startswith("start"))
        print("\nOne notebook, stage by stage (one worker):")
        for name, seconds in figures["stages"].items():
            share = "" if name.startswith("start") else f"{seconds / total:6.0%}"
            print(f"  {name:32}{1e3 * seconds:8.0f} ms {share}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


def _compare(options: argparse.Namespace, scratch: Path, cores: int) -> dict:
    count = options.students * len(UNITS)
    runs: dict[str, list[Cost]] = {}
    for repeat in range(options.repeats):
        runs.setdefault("stock", []).append(stock(options.students, scratch / f"stock{repeat}", options.bare))
        for workers in dict.fromkeys((1, min(2, cores), cores)):
            where = scratch / f"ours{repeat}-{workers}"
            runs.setdefault(f"ours, {workers} workers", []).append(ours(options.students, workers, where))
    middle = {name: _median(costs) for name, costs in runs.items()}
    base = middle["stock"]
    print(f"\nThe same class, {count} notebooks:")
    print(f"  {'':18}{'wall':>9}{'CPU':>9}{'memory':>11}{'times as fast':>16}")
    for name, cost in middle.items():
        ratios = f"{base.wall / cost.wall:16.1f}"
        print(f"  {name:18}{cost.wall:8.1f}s{cost.cpu:8.1f}s{cost.memory:8.0f} MiB{ratios}")
    return {"notebooks": count, "runs": {name: vars(cost) for name, cost in middle.items()}}


def _scale(options: argparse.Namespace, scratch: Path, cores: int) -> dict:
    print(f"\nOurs on {cores} workers, as the class grows:")
    print(f"  {'notebooks':>10}{'wall':>9}{'per notebook':>15}{'CPU each':>11}{'memory':>11}")
    found = {}
    for count in options.scale:
        cost = ours(count // len(UNITS), cores, scratch / f"scale{count}")
        found[count] = vars(cost)
        each = f"{1e3 * cost.wall / count:12.0f} ms{1e3 * cost.cpu / count:8.0f} ms"
        print(f"  {count:10}{cost.wall:8.1f}s{each}{cost.memory:8.0f} MiB")
    return found


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.cpu for cost in costs),
        statistics.median(cost.memory for cost in costs),
    )


if __name__ == "__main__":
    sys.exit(main())
