"""Settings shared by all tests."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# One thread per library, so that numbers and timings do not depend on the machine.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

#: Files whose tests share nothing but the cases of an exercise: one worker takes an exercise, not the whole file.
BY_EXERCISE = (
    *("test_held_out_answers.py", "test_mistakes.py", "test_visible_tests.py"),
    *("test_crashes.py", "test_draws.py"),
)
#: Files whose tests are long and share nothing.
ONE_BY_ONE = ("test_notebooks.py", "test_runs.py")


@pytest.fixture(autouse=True)
def time_to_read() -> None:
    """Each test has the processor time for reading cells that a submission has, whatever the tests before it read."""
    from autograder.reading import apart

    apart.begin()


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


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests belong together when several workers share them (`--dist loadgroup`)."""
    for number, item in enumerate(items):
        group = item.path.name
        if group in BY_EXERCISE:
            group += f" {_exercise(item)}"
        elif group in ONE_BY_ONE:
            group += f" {number}"
        item.add_marker(pytest.mark.xdist_group(group))


def _exercise(item: pytest.Item) -> str:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    exercise = parameters.get("exercise")
    return exercise.name if exercise is not None else str(parameters.get("name", parameters.get("unit", "")))
