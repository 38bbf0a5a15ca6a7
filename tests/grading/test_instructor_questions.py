"""Questions of an instructor's own: right, rubbish and unanswered get what they deserve, and what is hidden stays so."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.server_extensions.formgrader import handlers
from nbgrader.utils import compute_checksum
from traitlets.config import Config

from autograder.grading.one_submission import grade_submission
from autograder.handout import release as release_module
from autograder.judging.hidden_cases import Challenge
from autograder.reading.course_contents import Course
from autograder.reading.insert_answers import quoted, unquoted
from autograder.reading.read_submission import WORDS_CAP
from autograder.records import BadAssignment, Expected, Unreadable
from autograder.running.limits import Limits
from autograder.running.sandbox import open_sandbox, preflight
from own_course import (
    LAB,
    SECRET,
    UNIT,
    answer,
    hand_in,
    lab,
    make_course,
    read,
    run,
    solved,
    task,
    test_cell,
    words,
    write,
)

pytestmark = [
    pytest.mark.skipif(preflight() is not None, reason=str(preflight())),
    pytest.mark.usefixtures("one_sandbox"),
]

RUBBISH = 'def banded_mask(n, width):\n    return "rubbish"'
HOSTILE = """\
Because of <script>alert('mark-of-script')</script> and <img src="https://example.invalid/x.png" onerror="alert(1)">

```
</code></pre><script>alert(2)</script>
```

~~~
![picture](https://example.invalid/y.png) [link](javascript:alert(3)) $\\href{javascript:alert(4)}{x}$
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """A changed unit and an own assignment, released."""
    folder = make_course(tmp_path_factory.mktemp("course"), own=True)
    assert release_module.release(folder, [UNIT, LAB]) == [UNIT, LAB]
    return folder


@pytest.fixture(scope="module")
def sandbox():
    limits = Limits(seconds_per_exercise=2, seconds_per_cell=2, memory_bytes=768 * 2**20, file_bytes=2**20)
    with open_sandbox(limits) as opened:
        yield opened


@pytest.fixture(scope="module")
def challenge():
    return Challenge(3)


@pytest.fixture
def grade(course, sandbox, challenge, tmp_path):
    """Answers -> question -> verdict, through the real sandbox."""

    def graded(answers, below=(), unit=LAB, folder=course):
        path = hand_in(folder, "ada", unit, answers, list(below))
        read_again = Course(folder)
        verdicts = grade_submission(read_again.open(path, unit), read_again.assignment(unit), challenge, sandbox)
        path.unlink()
        return {verdict.function: verdict for verdict in verdicts}

    return graded


def changed(folder: Path, edit, name: str = "cell-shares-test") -> None:
    """Rewrite one cell of the lab's solution and release it."""
    notebook = lab()
    cell = next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)
    edit(cell, notebook)
    make_course(folder, unit=False)
    write(folder, LAB, notebook)


# What each answer is due


@pytest.mark.parametrize("unit", [UNIT, LAB])
def test_right_rubbish_and_unanswered_get_what_they_deserve(course, grade, unit):
    right = grade(solved(course, unit), [new_markdown_cell("a drawing")], unit)
    assert all(v.verdict == "right" and v.score == v.points for v in right.values() if v.verdict != "waiting")
    assert {name for name, v in right.items() if v.verdict == "waiting"} == {"why", "sketch", "draw"}
    assert (right["banded_mask"].points, right["cell-shares-test"].points) == (4, 3)

    rubbish = grade({"banded_mask": RUBBISH, "cell-shares": "def shares(numbers):\n    return 7"}, unit=unit)
    assert (rubbish["banded_mask"].score, rubbish["banded_mask"].verdict) == (0, "wrong")
    assert (rubbish["cell-shares-test"].score, rubbish["cell-shares-test"].verdict) == (0, "wrong")

    nothing = grade({}, unit=unit)
    assert {v.verdict for v in nothing.values()} == {"missing"} and not any(v.score for v in nothing.values())


def test_the_words_for_a_visible_test_are_its_own_and_those_for_a_hidden_one_are_ours(grade):
    visible = grade({"banded_mask": "def banded_mask(n, width):\n    return np.ones((1, 1))"})["banded_mask"]
    assert "The mask should be n by n (line 1" in visible.message
    bare = grade({"banded_mask": "def banded_mask(n, width):\n    return np.zeros((n, n), dtype=bool)"})["banded_mask"]
    assert "assert banded_mask(4, 2)[1, 1]" in bare.message
    hidden = grade({"banded_mask": "def banded_mask(n, width):\n    return np.ones((n, n), dtype=bool)"})["banded_mask"]
    assert hidden.message == "A hidden test of your instructor's fails (AssertionError)."
    only_later = "def banded_mask(n, width):\n    return np.eye(n, dtype=bool) if n < 5 else 1 / 0"
    raised = grade({"banded_mask": only_later})["banded_mask"]
    assert (raised.verdict, raised.message) == (
        "crashed",
        "A hidden test of your instructor's fails (ZeroDivisionError).",
    )


def test_partial_credit_is_the_number_that_a_test_ends_in(grade):
    some = grade({"cell-shares": "def shares(numbers):\n    return [0.5, 0.5]"})["cell-shares-test"]
    assert (some.score, some.verdict) == (1, "wrong") and "1 of 3 points" in some.message


@pytest.mark.parametrize(
    ("last", "score", "verdict"),
    [
        ("float('nan')", 0, "crashed"),
        ("3.5", 0, "crashed"),
        ("-1", 0, "crashed"),
        ("float('inf')", 0, "crashed"),
        ("np.float64(1.5)", 1.5, "wrong"),
        ("np.array(3)", 3, "right"),
        ("'2'", 3, "right"),
        ("True", 3, "right"),
        ("[1.0]", 3, "right"),
        ("1.0;", 3, "right"),
        ("None", 3, "right"),
        ("await __import__('asyncio').sleep(0, 2)", 2, "wrong"),
        ("%timeit -n1 -r1 pass", 3, "right"),
        ("print('a word')", 3, "right"),
    ],
)
def test_what_a_test_may_end_in(tmp_path, grade, last, score, verdict):
    changed(tmp_path, lambda cell, _: cell.update(source=f"assert shares([1]) == [1]\n{last}"))
    release_module.release(tmp_path, [LAB])
    found = grade({"cell-shares": "def shares(numbers):\n    return [1]"}, folder=tmp_path)["cell-shares-test"]
    assert (found.score, found.verdict) == (score, verdict)


def test_a_test_finds_the_notebook_as_it_stands_there(course, grade):
    """What cells below make of a name is not what was tested."""
    answers = solved(course, LAB)
    found = grade({**answers, "sketch": "banded_mask = np = None\nshares = 3"})
    assert found["banded_mask"].verdict == found["cell-shares-test"].verdict == "right"


def test_an_answer_elsewhere_in_the_notebook_is_no_missing_one(course, grade):
    right = solved(course, LAB)
    found = grade({"banded_mask": right["banded_mask"] + "\n\n" + right["cell-shares"]})
    assert found["cell-shares-test"].verdict == "right"


def test_an_answer_whose_cell_does_not_run_is_told_so(grade):
    broken = grade({"banded_mask": "def banded_mask(n, width:\n    return 1"})["banded_mask"]
    assert broken.verdict == "crashed" and "does not run: SyntaxError" in broken.message
    raising = grade({"banded_mask": 'raise NotImplementedError("later")'})["banded_mask"]
    assert raising.verdict == "missing"


# Hostile answers


STEAL = """\
import gc, json, os, socket, builtins
kept = []
_loads = json.loads
def loads(text, *more, **named):
    kept.append(text if isinstance(text, str) else bytes(text).decode(errors="replace"))
    return _loads(text, *more, **named)
json.loads = loads
"""
ATTACKS = {
    "ends its process": "def banded_mask(n, width):\n    import os\n    os._exit(0)",
    "ends it with a word": f"{STEAL}\ndef banded_mask(n, width):\n    os._exit(len(str(kept)) % 250)",
    "never ends": "def banded_mask(n, width):\n    while True:\n        pass",
    "takes 3 GB": "def banded_mask(n, width):\n    return bytearray(3 * 2**30)",
    "ends the notebook": "def banded_mask(n, width):\n    import os, signal\n    os.kill(os.getppid(), signal.SIGKILL)",
    "raises what it read": (
        f"{STEAL}\ndef banded_mask(n, width):\n"
        "    import sys\n    frame = sys._getframe(1)\n    texts = [str(frame.f_code.co_names), str(kept)]\n"
        "    import linecache; texts += [str(linecache.cache)]\n"
        "    raise type(str(texts)[-150:], (Exception,), {})(str(texts))"
    ),
    "prints and raises assertions of its own": (
        f"{STEAL}\ndef banded_mask(n, width):\n    print(kept)\n    raise AssertionError(str(kept))"
    ),
    "floods the reply": "def banded_mask(n, width):\n    raise ValueError('x' * 10**8)",
    "raises what cannot be described": (
        "class Odd(Exception):\n    def __str__(self):\n        raise SystemExit\n"
        "def banded_mask(n, width):\n    raise Odd"
    ),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_a_hostile_answer_costs_itself_alone_and_shows_nothing_hidden(course, grade, attack):
    found = grade({**solved(course, LAB), "banded_mask": attack})
    assert found["banded_mask"].score == 0, found["banded_mask"]
    assert found["causal_mask"].score == found["causal_mask"].points
    assert found["cell-shares-test"].score == 3, found["cell-shares-test"]
    for verdict in found.values():
        assert SECRET not in f"{verdict.message} {verdict.advice}" and "nine entries" not in verdict.message


def test_a_hostile_own_answer_changes_nothing_for_the_exercises_of_the_course(course, grade):
    """It may well earn its own points: test and answer share a process. The others are asked before any test is sent."""
    forging = (
        "import builtins, json\nbuiltins.AssertionError = StopIteration\n"
        "def banded_mask(n, width):\n"
        "    import os, socket, struct, stat\n"
        "    text = json.dumps({'event': 'outcome'}).encode()\n"
        "    for number in range(3, 40):\n"
        "        try:\n"
        "            os.write(number, struct.pack('<IQ', len(text), 0) + text)\n"
        "        except OSError:\n            pass\n"
        "    os._exit(0)"
    )
    found = grade({"banded_mask": forging, "causal_mask": "def causal_mask(n):\n    return 'rubbish'"})
    assert found["causal_mask"].score == 0 and found["cell-shares-test"].verdict == "missing"
    assert SECRET not in str(found)


def test_no_hidden_test_is_sent_before_the_exercises_and_the_visible_tests_are_done(
    course, challenge, sandbox, monkeypatch
):
    from autograder.running import submission_session as session_module

    sent = []
    send = session_module.send_frame

    def noted(channel, header, payload=b""):
        sent.append(
            "hidden" if SECRET in json.dumps(header) else "test" if "test" in header else header.get("function")
        )
        return send(channel, header, payload)

    monkeypatch.setattr(session_module, "send_frame", noted)
    path = hand_in(course, "ada", LAB, solved(course, LAB))
    again = Course(course)
    grade_submission(again.open(path, LAB), again.assignment(LAB), challenge, sandbox)
    path.unlink()
    order = [what for what in sent if what]
    assert order == ["causal_mask", "test", "test", "hidden", "hidden"]


# Words for a person


def test_prose_is_carried_whole_and_cannot_act():
    texts = [HOSTILE, "plain", "````", "a `b` ``c``", "```\nfenced\n```", "````\nlong\n````", " " * 200, "word " * 400]
    for text in texts:
        block = quoted(text)
        assert quoted(block) == block and unquoted(block) is not None
        assert unquoted(block).split() == (unquoted(text) or text).split()
        page = (
            HTMLExporter(sanitize_html=False)
            .from_notebook_node(nbformat.v4.new_notebook(cells=[new_markdown_cell(block)]))[0]
            .partition("<main")[2]
        )
        assert not [bad for bad in ("<script>alert", "<img", "<a ", 'javascript:alert(3)"') if bad in page]
        assert page.count("<pre") == 1
    assert unquoted("```\nits own fence\n```\nand more") is None


def test_an_answer_in_words_waits_and_one_that_was_left_is_none(course, grade):
    found = grade({"why": HOSTILE, "sketch": "x = 2"}, [new_code_cell("y = 3")])
    assert {found[name].verdict for name in ("why", "sketch", "draw")} == {"waiting"}
    assert {found[name].score for name in ("why", "sketch", "draw")} == {0}


def test_the_transplant_carries_words_and_leaves_the_rest(course):
    extra = [new_markdown_cell("below the task"), new_code_cell("z = 1"), new_markdown_cell("second")]
    path = hand_in(course, "ada", LAB, {"why": "my words"}, extra)
    handed = nbformat.read(path, as_version=4)
    handed.cells.append(new_markdown_cell("at the end, under no task"))
    nbformat.write(handed, path)
    taken = Course(course).open(path, LAB)
    path.unlink()
    sources = [cell.source for cell in taken.notebook.cells]
    place = sources.index("Draw a mask of your own, and describe it.")
    assert sources[place + 1 : place + 5] == [quoted("below the task"), "z = 1", quoted("second"), "That was all."]
    assert quoted("my words") in sources and "at the end" not in str(sources)
    by_name = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in taken.notebook.cells}
    assert by_name["sketch"].metadata.nbgrader.checksum == compute_checksum(by_name["sketch"])
    assert by_name["why"].metadata.nbgrader.checksum != compute_checksum(by_name["why"])


def test_a_task_that_was_answered_in_its_own_cell_and_a_doubled_answer_lose_no_words(course):
    path = hand_in(course, "ada", LAB, {"why": "first part", "draw": "Draw a mask.\n\nHere it is."})
    handed = nbformat.read(path, as_version=4)
    place = next(i for i, cell in enumerate(handed.cells) if cell.get("source") == "first part")
    again = nbformat.from_dict({**handed.cells[place], "id": "why-again", "source": "second part"})
    handed.cells.insert(place + 1, again)
    nbformat.write(handed, path)
    taken = Course(course).open(path, LAB)
    path.unlink()
    told = "\n".join(cell.source for cell in taken.notebook.cells)
    assert taken.below == {"draw"} and "Here it is." in told
    assert taken.words["why"] == "first part\n\nsecond part" and "first part\n\nsecond part" in told


def test_too_many_words_are_one_clear_line(course):
    path = hand_in(course, "ada", LAB, {"why": "w" * (WORDS_CAP + 1)})
    with pytest.raises(Unreadable, match=r"more than 200 kB of text; remove"):
        Course(course).open(path, LAB)
    path.unlink()


# What is refused


def _hidden(cell, text: str) -> None:
    cell.source = cell.source.replace("### END HIDDEN TESTS", f"{text}\n### END HIDDEN TESTS")


REFUSED = {
    "extra hidden asserts": (
        "test_causal_mask",
        lambda cell, _: _hidden(cell, "assert False"),
        "cell 'test_causal_mask' has hidden tests beside the course's judge (assert False), which are not run; put your "
        "asserts into a test cell of another name",
    ),
    "no judge": (
        "test_causal_mask",
        lambda cell, _: cell.update(source=cell.source.replace("judge_here", "judge_there")),
        "its hidden part is not the line",
    ),
    "a judge for no exercise": (
        "test_banded_mask",
        lambda cell, _: _hidden(cell, '__import__("autograder").judge_here(banded_mask)'),
        "calls judge_here, and the course has no exercise of that name",
    ),
    "a judge in no test": (
        "sketch",
        lambda cell, _: cell.update(source='x = 1\n__import__("autograder").judge_here(causal_mask)'),
        "cell 'sketch' calls judge_here",
    ),
    "nothing to run": (
        "test_banded_mask",
        lambda cell, _: cell.update(source="# a test, one day"),
        "cell 'test_banded_mask' is a test without a statement",
    ),
    "tests that are written by nbgrader": (
        "test_banded_mask",
        lambda cell, _: cell.update(source="assert True\n### AUTOTEST banded_mask(3, 1)"),
        "AUTOTEST, which is not supported here",
    ),
    "a test above its answer": (
        "test_banded_mask",
        lambda cell, nb: (nb.cells.remove(cell), nb.cells.insert(2, cell)),
        "cell 'test_banded_mask' stands above its answer cell",
    ),
    "a test with no answer": (
        "test_causal_mask",
        lambda cell, nb: nb.cells.insert(2, test_cell("early", "assert True", 1)),
        "cell 'early' is a test with no answer cell above it",
    ),
    "prose that is graded by tests": (
        "why",
        lambda cell, _: cell.metadata.nbgrader.update(solution=False, locked=True),
        "cell 'why' is to be graded by tests, and is no code",
    ),
    "two of a name": (
        "why",
        lambda cell, nb: nb.cells.append(words("why", 1)),
        "two questions are called 'why'",
    ),
}


@pytest.mark.parametrize(("name", "edit", "said"), REFUSED.values(), ids=list(REFUSED))
def test_what_would_be_passed_over_is_refused_by_release_and_by_grade(tmp_path, name, edit, said):
    make_course(tmp_path, unit=False, own=True)
    release_module.release(tmp_path, [LAB])
    before = (tmp_path / "notebooks" / LAB / f"{LAB}.ipynb").read_bytes()
    changed(tmp_path, edit, name)
    for act in (lambda: release_module.release(tmp_path, [LAB]), lambda: Course(tmp_path).assignment(LAB)):
        with pytest.raises(Expected) as found:
            act()
        assert said in str(found.value) and LAB in str(found.value) and "\n" not in str(found.value)
    assert (tmp_path / "notebooks" / LAB / f"{LAB}.ipynb").read_bytes() == before


def test_a_cell_that_a_question_needs_and_that_would_not_be_run_is_refused(tmp_path):
    def needs_a_helper(cell, notebook):
        notebook.cells.insert(2, new_code_cell("WIDTH = 2", id="helper"))
        cell.source = cell.source.replace("banded_mask(4, 2)", "banded_mask(4, WIDTH)")

    def and_has_tags(cell, notebook):
        needs_a_helper(cell, notebook)
        notebook.cells[1].metadata["tags"] = ["given"]

    changed(tmp_path, needs_a_helper, "test_banded_mask")
    assert release_module.release(tmp_path, [LAB]) == [LAB]
    changed(tmp_path, and_has_tags, "test_banded_mask")
    with pytest.raises(BadAssignment, match=r"cell 'helper' gives WIDTH, which a question of yours needs, .* tag it"):
        release_module.release(tmp_path, [LAB])


def test_parameters_and_loop_variables_of_a_question_are_needed_from_no_cell(tmp_path):
    def has_their_names(cell, notebook):
        notebook.cells[1].metadata["tags"] = ["given"]
        notebook.cells.insert(2, new_code_cell("numbers = [1]\nfor number in numbers:\n    print(number)", id="demo"))

    changed(tmp_path, has_their_names, "test_banded_mask")
    assert release_module.release(tmp_path, [LAB]) == [LAB]


def test_a_question_that_was_excluded_is_asked_all_the_same_and_counts_for_nothing(tmp_path, grade):
    make_course(tmp_path, unit=False, own=True)
    release_module.release(tmp_path, [LAB])
    (tmp_path / "grading").mkdir(exist_ok=True)
    excluded = json.dumps({LAB: ["banded_mask", "cell-shares-test", "why", "draw"]})
    (tmp_path / "grading" / "excluded.json").write_text(excluded)
    found = grade({**solved(tmp_path, LAB), "why": "words"}, folder=tmp_path)
    assert found["banded_mask"].verdict == found["cell-shares-test"].verdict == "right"
    assert not any(found[name].points for name in ("banded_mask", "cell-shares-test", "why", "draw"))
    assert found["causal_mask"].score == 1 and found["sketch"].verdict == "waiting"


def test_a_folder_with_another_notebook_is_refused(tmp_path):
    make_course(tmp_path, unit=False, own=True)
    other = write(tmp_path, LAB, lab()).with_name("draft.ipynb")
    shutil.copy(other.with_name(f"{LAB}.ipynb"), other)
    with pytest.raises(BadAssignment, match=r"solutions/lab holds draft.ipynb: .* move it out"):
        release_module.release(tmp_path, [LAB])
    other.with_name(f"{LAB}.ipynb").unlink()
    with pytest.raises(BadAssignment, match=r"rename it to lab.ipynb"):
        Course(tmp_path).find(LAB)
    with pytest.raises(BadAssignment, match=r"rename it to lab.ipynb"):
        release_module.release(tmp_path)


# The release


def test_the_line_above_an_exercise_says_the_points_of_its_cell(tmp_path):
    def worth_more(cell, notebook):
        cell.metadata.nbgrader.points = 7

    changed(tmp_path, worth_more, "test_causal_mask")
    release_module.release(tmp_path, [LAB])
    told = [cell.source for cell in read(tmp_path, LAB).cells if cell.source.startswith("**Exercise")]
    assert "· 4 points" in told[-1]  # it says 1 in the solution
    ours = (tmp_path / "notebooks" / LAB / f"{LAB}.ipynb").read_bytes()
    done = run(tmp_path, "nbgrader", "generate_assignment", LAB, "--force")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "notebooks" / LAB / f"{LAB}.ipynb").read_bytes() == ours
    assert SECRET not in ours.decode()


def test_a_release_that_fails_leaves_the_old_one_and_cells_come_and_go_over_a_filled_gradebook(tmp_path):
    make_course(tmp_path, unit=False, own=True)
    release_module.release(tmp_path, [LAB])
    hand_in(tmp_path, "ada", LAB, solved(tmp_path, LAB))
    assert run(tmp_path, "autograder", "grade", LAB).returncode == 0
    path = tmp_path / "notebooks" / LAB / f"{LAB}.ipynb"
    before = path.read_bytes()

    def unended(cell, _):
        cell.source = cell.source.replace("### END HIDDEN TESTS", "")

    changed(tmp_path, unended, "test_banded_mask")
    done = run(tmp_path, "nbgrader", "generate_assignment", LAB, "--force")
    assert done.returncode != 0 and path.read_bytes() == before

    def other_cells(cell, notebook):
        notebook.cells.remove(cell)
        notebook.cells += [answer("more", "more = 1"), test_cell("test_more", "assert more", 2), task("also", 1)]

    changed(tmp_path, other_cells)
    done = run(tmp_path, "nbgrader", "generate_assignment", LAB, "--force")
    assert done.returncode == 0, done.stderr
    assert b"test_more" in path.read_bytes() and b"cell-shares-test" not in path.read_bytes()
    with Gradebook(f"sqlite:///{tmp_path / 'grading' / 'gradebook.db'}", "attention") as book:
        grades = {grade.name: grade for grade in book.find_submission_notebook(LAB, LAB, "ada").grades}
        assert "test_more" in grades and "cell-shares-test" not in grades
        assert grades["test_banded_mask"].auto_score == 4


# From one end to the other


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The own assignment, handed in by a few and graded, with the pages of all."""
    folder = make_course(tmp_path_factory.mktemp("graded"), unit=False, own=True)
    assert run(folder, "autograder", "release", LAB).returncode == 0
    right = solved(folder, LAB)
    hand_in(folder, "ada", LAB, right, [new_markdown_cell(HOSTILE), new_markdown_cell("my drawing")])
    hand_in(folder, "bob", LAB, {"banded_mask": RUBBISH, "why": HOSTILE})
    hand_in(folder, "cid", LAB, {})
    done = run(folder, "autograder", "grade", LAB, "--json")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def grades(folder: Path, student: str) -> dict[str, tuple[float | None, bool]]:
    with Gradebook(f"sqlite:///{folder / 'grading' / 'gradebook.db'}", "attention") as book:
        found = book.find_submission_notebook(LAB, LAB, student).grades
        return {grade.name: (grade.auto_score, grade.needs_manual_grade) for grade in found}


def page(folder: Path, student: str) -> str:
    return (folder / "grading" / "feedback" / student / LAB / f"{LAB}.html").read_text(encoding="utf-8")


def test_the_gradebook_says_what_waits_for_a_person(graded):
    folder, entries = graded
    assert grades(folder, "ada") == {
        "test_causal_mask": (1, False),
        "test_banded_mask": (4, False),
        "cell-shares-test": (3, False),
        "why": (None, True),
        "sketch": (None, True),
        "draw": (None, True),
    }
    assert grades(folder, "bob")["why"] == (None, True) and grades(folder, "bob")["sketch"] == (0, False)
    assert set(grades(folder, "cid").values()) == {(0, False)}
    assert {entry["verdict"] for entry in entries if entry["function"] == "why"} == {"waiting", "missing"}


def test_nothing_hidden_is_in_what_grading_writes(graded):
    folder, _ = graded
    kinds = ("feedback", "autograded", "verdicts", "submitted")
    files = [path for kind in kinds for path in (folder / "grading" / kind).rglob("*") if path.is_file()]
    assert len(files) >= 9
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_the_page_shows_words_as_text_and_what_waits(graded):
    folder, _ = graded
    shown = page(folder, "ada")
    assert shown.count("… waits for your instructor") == 6 and "✗" not in shown.replace("✗ forbidden", "")
    assert "my drawing" in shown and "&lt;script&gt;alert(&#39;mark-of-script&#39;)" in shown
    assert "<script" not in shown and "<img" not in shown and "waits for your instructor" not in page(folder, "cid")


def test_the_formgrader_shows_a_students_words_as_text(graded):
    """As nbgrader's formgrader renders an autograded notebook: without a sanitizer."""
    folder, _ = graded
    settings = Config()
    settings.HTMLExporter.template_name = "formgrade"
    settings.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    told = ("student", "first_name", "last_name", "base_url", "notebook_path")
    resources = {**dict.fromkeys(told, ""), "submission_id": "1", "assignment_id": LAB, "notebook_id": LAB}
    for student in ("ada", "bob"):
        notebook = nbformat.read(folder / f"grading/autograded/{student}/{LAB}/{LAB}.ipynb", as_version=4)
        exporter = HTMLExporter(config=settings)
        page_of_it = exporter.from_notebook_node(notebook, resources={**resources, "index": 0, "total": 1})[0]
        assert "mark-of-script" in page_of_it and "textarea" in page_of_it
        for bad in (
            "<script>alert",
            '<img src="https://example.invalid',
            'href="javascript:alert',
            'onerror="alert(1)">',
        ):
            assert bad not in page_of_it


def test_a_plain_autograde_gives_the_same(graded, tmp_path):
    folder, _ = graded
    before = {student: grades(folder, student) for student in ("ada", "bob", "cid")}
    words_of = nbformat.read(folder / f"grading/autograded/bob/{LAB}/{LAB}.ipynb", as_version=4)
    done = run(folder, "nbgrader", "autograde", LAB, "--force")
    assert done.returncode == 0, done.stderr
    assert {student: grades(folder, student) for student in before} == before
    again = nbformat.read(folder / f"grading/autograded/bob/{LAB}/{LAB}.ipynb", as_version=4)
    assert [cell.source for cell in again.cells] == [cell.source for cell in words_of.cells]


def test_what_a_person_has_marked_stands_on_the_page(graded):
    folder, _ = graded
    with Gradebook(f"sqlite:///{folder / 'grading' / 'gradebook.db'}", "attention") as book:
        notebook = book.find_submission_notebook(LAB, LAB, "bob")
        grade = next(grade for grade in notebook.grades if grade.name == "why")
        comment = next(comment for comment in notebook.comments if comment.name == "why")
        grade.manual_score, grade.needs_manual_grade, comment.manual_comment = 2.5, False, "Nearly."
        book.db.commit()
    assert run(folder, "autograder", "grade", LAB).returncode == 0
    shown = page(folder, "bob")
    assert "✎ marked by your instructor" in shown and "2.5 of 3" in shown and "Nearly." in shown
    assert "waits for your instructor" not in shown


def test_an_own_assignment_goes_through_the_other_commands(graded):
    folder, _ = graded
    assert run(folder, "autograder", "release", "--check", LAB).returncode == 0
    done = run(folder, "autograder", "report", LAB)
    assert done.returncode == 0 and "banded_mask" in done.stdout, done.stderr
    done = run(folder, "autograder", "check", f"grading/submitted/ada/{LAB}/{LAB}.ipynb", "--json")
    assert done.returncode == 0, done.stderr
    assert {entry["verdict"] for entry in json.loads(done.stdout)} == {"right", "waiting"}
    done = run(folder, "autograder", "check", f"grading/submitted/ada/{LAB}/{LAB}.ipynb")
    assert done.returncode == 0 and "core 6/6" in done.stdout, done.stdout
    done = run(folder, "autograder", "bundle", LAB, "--out", "lab.zip")
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(folder / "lab.zip") as archive:
        names = [name for name in archive.namelist() if name.endswith(".ipynb")]
        assert names == [f"attention-course/handout/{LAB}/{LAB}.ipynb"]
        assert SECRET not in archive.read(names[0]).decode()
