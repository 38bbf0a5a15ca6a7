"""What a submission sees of this machine: the parts of Python, and none of what lies beside them."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from autograder.exercises.kit import Case
from autograder.grading.submission_jobs import Job
from autograder.grading.submitted_folder import HandedIn
from autograder.grading.whole_class import job_of
from autograder.reading.course_contents import Course
from autograder.records import CellSource
from autograder.running import bubblewrap
from autograder.running.limits import Limits
from autograder.running.sandbox import EXCHANGE, open_sandbox, preflight, unseen
from autograder.running.sandbox_messages import Request

ROOT = Path(__file__).resolve().parents[2]
SECRET = "canary-9e3c"

needs_a_sandbox = pytest.mark.skipif(preflight() is not None, reason=str(preflight()))
#: Reads every file below the folders, and says in which the word stands.
SEARCH = f"""
import os
def f(folders):
    found = []
    for top in folders:
        for folder, _, names in os.walk(top):
            for name in names:
                try: text = open(os.path.join(folder, name), "rb").read(200)
                except OSError: continue
                if b"{SECRET}" in text: found.append(os.path.join(folder, name))
    return found
"""


def ask(source: str, *args: object, hidden: tuple[str, ...] = ()) -> object:
    """What f of this cell returns in a sandbox of its own."""
    with (
        open_sandbox(Limits(), hidden=hidden) as sandbox,
        sandbox.session([CellSource("f", "answer", textwrap.dedent(source))]) as session,
    ):
        answer = session.ask(Request("f", [Case("values", "a call", args)]))
    assert answer.status == "answered", answer
    assert answer.calls[0].failure is None, answer.calls[0].failure
    return answer.calls[0].value


@needs_a_sandbox
def test_beside_what_is_needed_nothing_is_in_sight(tmp_path, monkeypatch):
    """Every folder on the way to a part of Python shows that part alone, whatever else the host has there."""
    monkeypatch.chdir(tmp_path)  # the current folder has no say in it
    shown = bubblewrap.visible()
    ways = sorted({str(parent) for path in shown for parent in Path(path).parents})
    seen = ask("import os\ndef f(ways): return [sorted(os.listdir(way)) for way in ways]", ways)
    for way, names in zip(ways, seen, strict=True):
        parts = {Path(path).relative_to(way).parts[0] for path in shown if Path(path).is_relative_to(way)}
        if way == "/":
            parts |= {
                "bin",
                "sbin",
                "lib",
                "lib32",
                "lib64",
                "libx32",
                "proc",
                "dev",
                "tmp",
                "scratch",
                "course",
                "etc",
            }
        assert set(names) <= parts, way
    assert not [path for path in shown if path in ("/usr", "/usr/share", "/usr/local", "/usr/lib", "/usr/local/share")]
    assert sys.prefix not in shown and sys.base_prefix not in shown


@needs_a_sandbox
def test_what_students_use_works_with_what_is_in_sight():
    source = """
    import ctypes, lzma, os, sqlite3, ssl, subprocess, zoneinfo
    import matplotlib.pyplot as plt, numpy as np, scipy.linalg, torch
    words = subprocess.run("echo and | cat", shell=True, capture_output=True, text=True).stdout  # no answer may
    def f(x):
        plt.plot(x); plt.title("$\\\\sqrt{d}$"); plt.savefig("/scratch/figure.png")
        return os.path.getsize("/scratch/figure.png") > 1000, words, float(torch.from_numpy(x).softmax(-1).sum())
    """
    drawn, words, total = ask(source, np.arange(3.0))
    assert (drawn, words, round(total, 6)) == (True, "and\n", 1.0)


PLACES = ["/usr/local/share", "/usr/share", "/usr/local", "/usr", "/usr/lib", sys.prefix, sys.base_prefix, "/opt"]


@needs_a_sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user can put nothing there")
def test_a_class_below_a_system_folder_or_the_environment_cannot_be_read(monkeypatch):
    """Such as nbgrader's own exchange, which lies below /usr/local/share if nobody says otherwise."""
    planted = [Path(place, f"class-of-{os.getpid()}") for place in dict.fromkeys(PLACES) if Path(place).is_dir()]
    try:
        for folder in planted:
            (folder / "inbound/anna").mkdir(parents=True)
            (folder / "inbound/anna/03_masking.ipynb").write_text(SECRET)
            monkeypatch.chdir(folder / "inbound")  # neither the course nor a class, which is all that one could guess
        assert ask(SEARCH, list(map(str, planted))) == []
    finally:
        for folder in planted:
            (folder / "inbound/anna/03_masking.ipynb").unlink(missing_ok=True)
            for place in (folder / "inbound/anna", folder / "inbound", folder):
                place.rmdir()


@needs_a_sandbox
def test_a_class_within_a_part_of_python_is_covered(tmp_path, monkeypatch):
    """And what Python needs from beneath a cover is there all the same."""
    library, needed = tmp_path / "lib", tmp_path / "lib/course/.venv/lib"
    exchange = tmp_path / "lib/exchange"
    for folder in (library, library / "course/solutions", exchange / "inbound", needed):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "file").write_text(SECRET)
    for folder in (tmp_path, *tmp_path.rglob("*")):
        folder.chmod(0o755)
    (tmp_path / "way").symlink_to(library)
    real = bubblewrap.interpreter()
    monkeypatch.setattr(bubblewrap, "interpreter", lambda: [*real, str(library), str(needed)])
    hidden = (str(tmp_path / "way/course"), str(exchange))
    assert ask(SEARCH, [str(tmp_path)], hidden=hidden) == [str(library / "file"), str(needed / "file")]


def test_this_package_is_covered_where_it_is_installed(tmp_path):
    for name in ("autograder", "attention_course-1.dist-info", "numpy"):
        (tmp_path / "python3.11/site-packages" / name).mkdir(parents=True)
    packages = tmp_path / "python3.11/site-packages"
    assert bubblewrap.masks([str(tmp_path)], ()) == [
        str(packages / "attention_course-1.dist-info"),
        str(packages / "autograder"),
    ]


def test_a_job_carries_what_is_to_be_hidden_wherever_it_is_done(tmp_path):
    """A worker on another machine knows neither the course's folder nor its configuration."""
    (tmp_path / "nbgrader_config.py").write_text("get_config().Exchange.root = '/srv/hub/exchange'\n")
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    item = HandedIn("anna", "03_masking", ROOT / "notebooks/03_masking/03_masking.ipynb")
    job = job_of(Course(tmp_path), item, 1, Limits())
    assert isinstance(job, Job)
    assert set(job.hidden) == {str(tmp_path.resolve()), "/srv/hub/exchange", EXCHANGE}


def test_a_configuration_that_cannot_be_read_hides_the_course_all_the_same(tmp_path):
    (tmp_path / "nbgrader_config.py").write_text("1 / 0")
    assert str(tmp_path.resolve()) in unseen(tmp_path)
