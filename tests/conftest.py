"""Settings shared by all tests."""

import functools
import json
import os
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import autograder

# One thread per library, so that numbers and timings do not depend on the machine.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# Unit 11 does without its language model, unless the variable is set: empty, it means the one in the user's cache.
os.environ.setdefault("ATTENTION_COURSE_MODEL", "none")

autograder.import_no_more_than_needed()

ROOT = Path(__file__).parents[1]
#: Files of tests of every exercise: one worker takes a unit, not the whole file, and each test has its unit's mark.
BY_UNIT = (
    "test_held_out_answers.py",
    "test_known_mistakes.py",
    "test_visible_tests.py",
    "test_raising_answers.py",
    "test_many_draws.py",
    "test_habits.py",
)
#: Files whose tests are long and share nothing.
ONE_BY_ONE = ("test_notebooks.py", "test_class_runs.py")
#: What takes longest, for workers begin with it: files, and tests of files that are quick otherwise.
LONGEST = (
    *("test_changing_course.py", "test_solution_runs_from_the_top_and_prints_what_it_printed", "test_sample_class.py"),
    *("test_sandbox.py", "test_class_runs.py", "test_hostile_submissions.py", "test_confinement.py"),
    "test_forbidden_calls.py",
    *("test_one_submission.py", "test_instructors_guide.py", "test_check.py", "test_held_out_answers.py"),
)


def pytest_configure(config: pytest.Config) -> None:
    """Make a mark of each unit, and have workers take the groups in our order, not by the number of their tests."""
    for unit in exercises_of_units():
        config.addinivalue_line("markers", f"{mark_of(unit)}: what concerns {unit}")
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.fixture(autouse=True)
def time_to_read() -> None:
    """Each test has the processor time for reading cells that a submission has, whatever the tests before it read."""
    from autograder.reading import transform_cells

    transform_cells.begin()


@pytest.fixture(autouse=True)
def stand_in_the_course(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test with a course folder of its own stands in it, as an instructor would: commands then need not name it."""
    folder = request.getfixturevalue("course") if "course" in request.fixturenames else None
    if isinstance(folder, Path) and (folder / "nbgrader_config.py").is_file():
        monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def one_sandbox() -> Iterator[None]:
    """Runs of this file's tests take a sandbox that is warm; see warm.py."""
    from warm import WARM

    with WARM.lends_to_all():
        yield


def pytest_unconfigure() -> None:
    """End what was kept warm for all tests."""
    if "warm" in sys.modules:
        sys.modules["warm"].WARM.stop()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores, because many tests of the sandbox wait."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Workers leave together what shares fixtures. (Marks of xdist's own say nothing to it under pytest 9.2.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Together(config, log) if config.getvalue("dist") == "loadgroup" else None


def group_of(nodeid: str) -> str:
    """A file, a unit's part of one that is about all exercises, or a single test."""
    path, _, test = nodeid.partition("::")
    file = Path(path).name
    if file in ONE_BY_ONE:
        return nodeid
    if file not in BY_UNIT:
        return file
    words = set(re.split(r"\W+|__", test))
    return next((f"{file} {unit}" for unit, names in exercises_of_units().items() if {unit, *names} & words), file)


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say which unit a test concerns, and begin with what takes longest."""
    ranks = {}
    for item in items:
        units, file = units_of(item), item.path.name
        for unit in units:
            item.add_marker(mark_of(unit))
        if file in BY_UNIT and not units and {"exercise", "name", "unit"} & {*parameters(item)}:
            raise pytest.UsageError(f"{item.nodeid}: of which unit is it? Let a parameter name its exercise or unit")
        names = (file, item.originalname)
        ranks[item] = next((place for place, name in enumerate(LONGEST) if name in names), len(LONGEST))
    if hasattr(config, "workerinput"):
        items.sort(key=ranks.__getitem__)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m unit03` read no file that says nothing of unit 3, and with `-k causal_mask` none that lacks the word."""
    asked = re.fullmatch(r"unit\d\d", config.getoption("markexpr"))
    file = collection_path.name
    if asked is None or not file.startswith("test_") or file in (*BY_UNIT, *ONE_BY_ONE):
        return None
    (unit, names), *_ = [(unit, names) for unit, names in exercises_of_units().items() if mark_of(unit) == asked[0]]
    words = set(re.findall(r"\w+", collection_path.read_text(encoding="utf-8"))) | {collection_path.stem}
    about = {unit, f"unit_{unit[:2]}", f"test_unit_{unit[:2]}", *names} & words
    keyword = config.getoption("keyword")
    return None if about and (keyword not in names or keyword in words) else True


@functools.cache
def exercises_of_units() -> dict[str, list[str]]:
    """Unit -> its exercises, by the notebooks: a run of one quick file need not import them all."""
    found = {}
    for path in sorted((ROOT / "solutions").glob("*/*.ipynb")):
        cells = [cell["metadata"].get("nbgrader", {}) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
        found[path.stem] = [cell["grade_id"] for cell in cells if cell.get("solution")]
    return found


def exercise_names() -> list[str]:
    """All exercises, unit by unit: to name them imports none."""
    return [name for names in exercises_of_units().values() for name in names]


def mark_of(unit: str) -> str:
    """The mark of a unit: unit03 for 03_masking."""
    return f"unit{unit[:2]}"


def units_of(item: pytest.Item) -> list[str]:
    """The units that a test concerns: by its file's name, by its parameters, and by the exercises that it names.

    That a test of the commands grades some unit makes it none of that unit.
    """
    words = {item.path.stem.removeprefix("test_"), *strings(item.function.__code__)}
    for value in parameters(item).values():
        place = getattr(value, "__module__", "").rpartition(".")[2] if callable(value) else ""
        words |= {value} if isinstance(value, str) else {place, *map(str, (_of(value, "unit"), _of(value, "name")))}
    known = exercises_of_units()
    return [unit for unit in known if {unit, f"unit_{unit[:2]}", *known[unit]} & words]


def parameters(item: pytest.Item) -> dict[str, object]:
    return getattr(getattr(item, "callspec", None), "params", {})


def _of(value: object, name: str) -> object:
    return getattr(value, name, "") if not isinstance(value, type) else ""


def strings(code: types.CodeType) -> set[str]:
    """The strings that stand in a function."""
    found: set[str] = set()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= strings(constant)
        else:
            each = constant if isinstance(constant, (tuple, frozenset)) else (constant,)
            found |= {word for word in each if isinstance(word, str)}
    return found
