"""Predictions: asked for in a notebook, hidden in its release, read off a stranger's text, shown beside what is true."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

from autograder.cli import main
from autograder.grading.results_store import keep, kept
from autograder.handout.release import build_release
from autograder.pages.class_predictions import LESS, MORE, NEAR, Belief, beliefs
from autograder.reading.predictions import CELL_CAP, Asked, asked_in, guesses_in, without_truth
from autograder.reading.read_submission import Cell
from autograder.records import BadAssignment, Graded, Verdict

ROOT = Path(__file__).parents[2]
UNIT = "03_masking"
CHOICE = (
    '# Does it grow?\n# “It” is the weight.\npredict("3.1", "b", a="it grows", b="it falls — by half", c="it stays")'
)
NUMBER = '# What share, from 0 to 1?\npredict("3.2", 0.25)'
EVIL = "</td><script>alert(1)</script>\x1b[31m"


def notebook_with(*sources):
    cells = [
        nbformat.v4.new_code_cell(source, id=f"predict-3-{place}", metadata={"tags": ["predict"]})
        for place, source in enumerate(sources, start=1)
    ]
    return nbformat.v4.new_notebook(cells=cells)


ASKED = asked_in(notebook_with(CHOICE, NUMBER))


def said(*sources):
    return guesses_in([Cell(None, None, source) for source in sources], ASKED)


def test_a_cell_says_what_is_asked_what_there_is_to_choose_and_what_is_true():
    choice, number = ASKED
    assert (choice.number, choice.question) == ("3.1", "Does it grow? “It” is the weight.")
    assert choice.options == {"a": "it grows", "b": "it falls — by half", "c": "it stays"} and choice.truth == "b"
    assert (number.options, number.truth) == ({}, 0.25)


@pytest.mark.parametrize("source", [CHOICE, NUMBER, '# é é?\npredict("3.1", "ä", ä="é", b="x")  # a note'])
def test_a_release_has_dots_where_the_truth_was_and_nothing_else_differs(source):
    released = without_truth(source)
    truth = '"b"' if source == CHOICE else "0.25" if source == NUMBER else '"ä"'
    assert released == source.replace(f", {truth}", ", ...", 1)
    assert asked_in(notebook_with(released))[0].truth is None


@pytest.mark.parametrize(
    "source",
    [
        'predict("3.1", "b", a="x", b="y")',
        '# Which?\npredict("3.1", "z", a="x", b="y")',
        '# Which?\npredict("3.1")',
        "# Which?\npredict(",
        '# Which?\nprint("3.1", "b")',
        '# Which?\npredict("3.1", truth, a="x")',
        '# Which?\npredict("3.1", "b", b="y")\nprint(1)',
    ],
)
def test_a_cell_that_asks_in_another_form_is_refused_with_the_form(source):
    with pytest.raises(BadAssignment, match="a question as comments, then predict"):
        asked_in(notebook_with(source))


@pytest.mark.parametrize(
    ("source", "guess"),
    [
        ('predict("3.1", "b", a="it grows")', {"3.1": "b"}),
        ("# mine\n  predict( '3.1' , 'B ', a='x')", {"3.1": "b"}),
        ('predict("3.1", "d")', {"3.1": None}),
        ('predict("3.1", 7)', {"3.1": None}),
        ('predict("3.1", ["b"])', {"3.1": None}),
        (f'predict("3.1", "{EVIL}")', {"3.1": None}),
        ('predict("3.1", "' + "b" * 100 + '")', {"3.1": None}),
        ('predict("3.1", ..., a="x")', {}),
        ('# predict("3.1", "b")', {}),
        ('predict("9.9", "b")', {}),
        ('predict("3.2", .5)', {"3.2": 0.5}),
        ('predict("3.2", -1e3)', {"3.2": -1000.0}),
        ('predict("3.2", 1e999)', {"3.2": None}),
        ('predict("3.2", 9' + "0" * 19 + ")", {"3.2": None}),
        ('predict("3.2", float("nan"))', {"3.2": None}),
        ('predict("3.2", "0.5")', {"3.2": None}),
        ('predict("3.1", "a")\npredict("3.1", "a")', {"3.1": "a"}),
        ('predict("3.1", "a")\npredict("3.1", "b")\npredict("3.1", "a")', {"3.1": None}),
        (" " * CELL_CAP + 'predict("3.1", "a")', {}),
        ("predict(" * 500, {}),
    ],
)
def test_a_guess_is_read_off_a_strangers_text_and_nonsense_is_none(source, guess):
    assert said(source) == guess


def test_guesses_in_prose_do_not_count():
    assert guesses_in([Cell(None, None, 'predict("3.1", "a")', "markdown")], ASKED) == {}


def belief(asked, *guesses, unclear=0, silent=0):
    return Belief(UNIT, asked, guesses, unclear, silent)


def test_shares_say_who_chose_what_and_which_is_true():
    found = belief(ASKED[0], "b", "a", "b").shares
    assert [(share.count, share.true) for share in found] == [(1, False), (2, True), (0, False)]
    found = belief(ASKED[1], 0.1, 0.13, 0.5, 0.51, -3.0).shares
    assert [(share.words, share.count, share.true) for share in found] == [
        (LESS, 2, False), (NEAR, 2, True), (MORE, 1, False),
    ]  # fmt: skip
    zero = Asked("3.3", "How much?", {}, 0.0)
    assert [share.count for share in belief(zero, 0.0, 1.0, -1.0).shares] == [1, 1, 1]


class Text(HTMLParser):
    """The tags and the words of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture
def course(tmp_path):
    """A class of 30 that was graded in a unit with two predictions, nonsense among them."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    for folder in ("solutions", "notebooks"):
        shutil.copytree(ROOT / folder / UNIT, tmp_path / folder / UNIT)
    path = tmp_path / "solutions" / UNIT / f"{UNIT}.ipynb"
    solution = nbformat.read(path, as_version=4)
    solution.cells = [cell for cell in solution.cells if "predict" not in cell.metadata.get("tags", [])]
    solution.cells += notebook_with(CHOICE, NUMBER).cells
    nbformat.write(solution, path)
    build_release(tmp_path, UNIT, tmp_path / "notebooks")
    odd = [
        '"a"',
        '"b"',
        "1e300",
        f'"{EVIL}"',
        "9" * 5_000,
        '"b", "a"',
        "...",
        "[[[[",
        "0.24",
        "",
        '"c"\npredict("3.1", "a"',
    ]
    release = nbformat.read(tmp_path / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)
    for place in range(30):
        student = f"s{place:02}" if place else "<b>eve"
        for cell in release.cells:
            if cell.id in ("predict-3-1", "predict-3-2"):
                number = cell.id[-3:].replace("-", ".")
                cell.source = f'predict("{number}", {odd[(place + int(number[-1])) % len(odd)]})'
        folder = tmp_path / "grading" / "submitted" / student / UNIT
        folder.mkdir(parents=True)
        if place == 7:
            (folder / f"{UNIT}.ipynb").write_text("{")
        else:
            nbformat.write(release, folder / f"{UNIT}.ipynb")
        verdict = Verdict(UNIT, "causal_mask", 1, 1.0, "right", None, "")
        keep(tmp_path, Graded(student, UNIT, [verdict]))
    return tmp_path


def test_the_release_of_a_unit_hides_what_is_true(course):
    release = nbformat.read(course / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)
    assert [asked.truth for asked in asked_in(release)] == [None, None]
    assert any('predict("3.1", ..., a="it grows"' in cell.source for cell in release.cells)


def test_a_prediction_that_could_not_be_read_is_one_line_before_anything_is_released(course, capsys):
    path = course / "solutions" / UNIT / f"{UNIT}.ipynb"
    before = (course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes()
    solution = nbformat.read(path, as_version=4)
    solution.cells[-1].source = 'predict("3.2", 0.25)'
    nbformat.write(solution, path)
    capsys.readouterr()
    assert main(["--course", str(course), "release", UNIT]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "course folder" not in line]
    assert f"solutions/{UNIT}/{UNIT}.ipynb: cell 'predict-3-2': a cell with the tag" in line
    assert (course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes() == before


def test_a_class_of_thirty_with_nonsense_gives_a_clean_page(course, capsys):
    assert main(["--course", str(course), "report"]) == 0
    assert "predictions.html" in capsys.readouterr().out
    text = (course / "grading" / "report" / "predictions.html").read_text()
    told = Text(text)
    assert "script" not in told.tags and "\x1b" not in text and EVIL not in text and "1e300" not in text
    assert set(told.tags) <= {
        "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "a", "table", "tr", "th", "td",
        "span", "svg", "g", "path", "rect",
    }  # fmt: skip
    widths = [float(width) for width in re.findall(r'style="width: ([^%]*)%"', text)]
    assert len(widths) == 6 and all(0 <= width <= 100 for width in widths)
    words = " ".join(" ".join(told.words).split())
    assert "Does it grow?" in words and "Measured: b: it falls — by half." in words and "Measured: 0.25." in words


def test_a_notebook_of_hundreds_of_megabytes_is_not_read_for_its_guesses(course, monkeypatch):
    everybody = beliefs(course, list(kept(course)))
    largest = max(path.stat().st_size for path in course.glob("grading/submitted/*/*/*.ipynb"))
    monkeypatch.setattr("autograder.pages.class_predictions.SIZE_CAP", largest)
    assert beliefs(course, list(kept(course))) == everybody
    with open(course / "grading" / "submitted" / "s03" / UNIT / f"{UNIT}.ipynb", "ab") as file:
        file.write(b" " * largest)
    fewer = beliefs(course, list(kept(course)))
    assert [len(each.guesses) + each.unclear + each.silent for each in fewer] == [28, 28]
    assert [len(each.guesses) + each.unclear + each.silent for each in everybody] == [29, 29]


def test_other_programs_get_the_same_as_json(course, capsys):
    assert main(["--course", str(course), "report", "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["predictions"]
    assert [(each["number"], each["truth"]) for each in found] == [("3.1", "b"), ("3.2", 0.25)]
    for each in found:
        guessed = sum(each["counts"].values()) + len(each["numbers"])
        assert guessed and each["unclear"] and each["silent"]
        assert guessed + each["unclear"] + each["silent"] == 29, "one notebook of thirty cannot be read"
