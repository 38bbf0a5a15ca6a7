"""The picture of the first case that fails: what it shows, what it must not, and that no value makes it large."""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from autograder.exercises.kit.exercise_records import Case
from autograder.grading.in_process import judge_function
from autograder.grading.results_store import keep, read_kept
from autograder.judging.first_difference import MOST, where
from autograder.judging.hidden_cases import Challenge
from autograder.pages.answer_picture import in_words, picture
from autograder.records import Graded, Verdict, Where

UNIT = "02_scaled_scores"
CASE = Case("values", "a <case>", (np.zeros(3),), sizes={"B": 2, "h": 3, "n": 4, "d_k": 5})


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def whole(page: str) -> ElementTree.Element:
    """The picture as a browser would read it: well formed, with nothing that runs or fetches."""
    tree = ElementTree.fromstring(page.replace("&nbsp;", " "))
    tags = {node.tag for node in tree.iter()}
    assert tags <= {"figure", "figcaption", "div", "p", "svg", "path", "text", "tspan"}
    assert not [name for node in tree.iter() for name in node.attrib if name.startswith("on") or "href" in name]
    assert len(page) < 40_000
    return tree


def told(value, expected, **changes) -> Where:
    found = where(replace(CASE, **changes), "the result", value, expected)
    whole(picture(Where.read(json.loads(json.dumps(asdict(found))))))
    return found


def test_the_first_wrong_slice_is_shown_and_named():
    expected = drawn(1, 2, 3, 4, 5)
    value = expected.copy()
    value[1, 2, [0, 2]] += 1
    value[1, 2, 3, 4] = np.nan
    found = told(value, expected)
    assert found.at == ("sequence 1", "head 2") and found.start == (0, 0)
    assert found.marks == ("xxxxx", "=====", "xxxxx", "====n")
    assert in_words(found).startswith(
        "11 of 20 entries shown differ; row 1 is right. 1 number shown is NaN or infinite."
    )
    page = html.unescape(picture(found))
    assert "sequence 1, head 2 of the result" in page and "“a <case>”" in page
    assert page.count("✗") == 11 and page.count("✓") == 10 and page.count("!") == 2, "the key has each sign once"


def test_an_axis_whose_size_says_nothing_is_named_by_its_number():
    expected = drawn(1, 5, 4, 5)
    assert told(expected + 1, expected).at == ("index 0 of axis 0",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (np.s_[:, :], "Every entry shown differs."),
        (np.s_[[1, 3], :], "Rows 1 and 3 differ, the other rows shown are right."),
        (np.s_[:, 0], "Column 0 differs, the other columns shown are right."),
        (np.triu_indices(6, 1), "15 of 36 entries shown differ, all above the diagonal."),
        (np.diag_indices(6), "6 of 36 entries shown differ, all on the diagonal."),
        (np.s_[2, 1:4], "3 of 36 entries shown differ; 5 rows and columns 0, 4 and 5 are right."),
    ],
)
def test_places_are_told_in_words(change, words):
    expected = drawn(2, 6, 6)
    value = expected.copy()
    value[change] += 1
    assert in_words(told(value, expected)) == f"{words} Rows and columns are counted from 0."


def test_a_large_result_is_shown_from_where_it_first_differs():
    expected = drawn(3, 300, 200)
    value = expected.copy()
    value[250, 7] += 1
    found = told(value, expected)
    assert found.start == (250, 0) and len(found.own) == len(found.marks[0]) == MOST
    assert "This is a part of 300 by 200." in in_words(found)
    value[250, 199] += 1
    value[250, 7] -= 1
    assert told(value, expected).start == (250, 188)


def test_a_vector_is_one_row():
    expected = drawn(4, 5)
    found = told(expected * [1, 2, 1, 1, 1], expected)
    assert found.marks == ("=x===",)
    assert in_words(found) == "Of the entries shown place 1 differs. Places are counted from 0."


def test_of_another_shape_it_shows_what_is_missing_and_what_is_too_much():
    found = told(drawn(5, 5, 3), drawn(5, 3, 5))
    assert found.marks == ("...--", "...--", "...--", "+++  ", "+++  ")
    assert in_words(found).startswith("2 rows too many, 2 columns missing.")
    assert where(CASE, "the result", drawn(5, 3, 4, 5), drawn(5, 2, 4, 5)) is None, "the slice shown would be right"
    assert where(CASE, "the result", drawn(5, 3, 4), drawn(5, 2, 3, 4)) is None


def test_where_two_values_are_possible_a_row_is_told_and_no_entry():
    """A mark for each entry beside the student's own would be the expected result."""
    expected = np.tril(np.ones((5, 5), bool))
    value = expected.copy()
    value[3] = [1, 1, 0, 0, 0]
    for one, other in ((value, expected), (value * 1, expected * 1), (value * 1.0, expected * 1.0)):
        found = told(one, other)
        assert found.marks == ("=====", "=====", "=====", "~~~~~", "=====")
        assert in_words(found).startswith("Something differs in row 3; the other rows shown are right.")
        page = picture(found)
        assert page.count("✗") == 2 and page.count("✓") == 5, "one sign for a row, and one of each in the key"
    assert where(CASE, "the result", value[:, :1], ~expected[:, :1]) is None, "a row is one entry"


def test_lists_and_pairs_are_shown_too():
    assert told([1, 2, 2**900], [1, 2, 3]).marks == ("==x",)
    assert told([1, 2, 3, 4], [1, 2]).marks == ("..++",)
    assert told([(1, 2), (3, 4)], [(1, 2), (3, 5)]).marks == ("==", "=x")


def test_no_expected_number_is_in_it():
    expected = drawn(6, 12, 12) * 1000
    value = drawn(7, 12, 12)
    text = json.dumps(asdict(told(value, expected))) + picture(told(value, expected))
    numbers = {float(number) for number in re.findall(r"-?\d+\.\d+", text)}
    assert numbers and not [each for each in expected.ravel() if any(abs(each - number) < 1 for number in numbers)]


@pytest.mark.parametrize(
    "value",
    [
        np.full((4, 5), np.nan),
        np.full((4, 5), -np.inf),
        np.full((4, 5), 1e308) * np.array([1, -1, 1, -1, 1]),
        np.full((4, 5), -1.2345e-300),
        np.full((4, 5), 2**63 - 1),
        np.full((4, 5), 1e300, np.longdouble) * 1e300,
        np.full((1,) * 14 + (4, 5), 7.0),
    ],
)
def test_hostile_numbers_give_a_bounded_picture(value):
    with np.errstate(all="ignore"):
        found = told(value, drawn(8, *value.shape))
    assert max(len(entry) for row in found.own for entry in row) <= 8


@pytest.mark.parametrize(
    "value",
    [None, "text", 3.0, True, [], ["a"], [[1], [2, 3]], [None] * 3, {}, object(), np.zeros(0), np.zeros((3, 0)),
     np.array(1.0), np.zeros((4, 5), complex), np.array(["a"] * 20).reshape(4, 5), np.zeros((1,) * 60)],
    ids=range(16),
)  # fmt: skip
def test_what_is_no_array_of_numbers_gives_none(value):
    assert where(CASE, "the result", value, drawn(9, 4, 5)) is None


GOOD = asdict(where(CASE, "the result", drawn(1, 4, 5), drawn(2, 4, 5)))


@pytest.mark.parametrize(
    "told",
    [
        None, 7, "text", [], {}, {"own": 3}, {**GOOD, "more": 1}, {**GOOD, "marks": []}, {**GOOD, "marks": ["x" * 99] * 4},
        {**GOOD, "marks": ["xxxx<"] * 4}, {**GOOD, "own": [["9" * 99] * 5] * 4}, {**GOOD, "own": [["1"] * 9] * 4},
        {**GOOD, "own": [[1] * 5] * 4}, {**GOOD, "own": []}, {**GOOD, "shape": ["4", 5]}, {**GOOD, "asked": [4]},
        {**GOOD, "start": [0]}, {**GOOD, "at": [3]}, {**GOOD, "case": 3}, {**GOOD, "own": [[]] * 4},
    ],
    ids=lambda told: str(told)[-40:],
)  # fmt: skip
def test_what_has_not_the_form_of_one_gives_no_picture(told, tmp_path):
    kept_with(tmp_path, told)
    found = read_kept(tmp_path, UNIT, "anna")
    assert found is None or picture(found.verdicts[0].where) == ""


def kept_with(folder: Path, told: object) -> Path:
    """A file of verdicts in which that stands as the place where an answer differs."""
    keep(folder, Graded("anna", UNIT, [Verdict(UNIT, "softmax", 1, 0, "wrong", None, "No.")]))
    path = folder / "grading" / "verdicts" / UNIT / "anna.json"
    content = json.loads(path.read_text())
    content["verdicts"][0]["where"] = told
    path.write_text(json.dumps(content))
    return path


def test_words_of_a_stranger_stay_text():
    evil = "<script>alert(1)</script>\"'&"
    rows = [["<b>&\"'"] * 5] * 4
    page = picture(
        Where.read(
            {**GOOD, "case": evil, "name": evil, "at": [evil], "shape": [1, 4, 5], "asked": [1, 4, 5], "own": rows}
        )
    )
    whole(page)
    assert "<script" not in page and "<b>" not in page


# --- from the judge to the page --------------------------------------------------------------------------------------


def transposed(Q, K):
    return (Q @ K.T)[::-1].copy()


def test_a_wrong_answer_has_one_and_a_right_one_has_none():
    wrong = judge_function(transposed, "attention_scores", seed=3)
    assert wrong.verdict == "wrong" and wrong.where is not None
    assert f"“{wrong.where.case}”" in wrong.message
    posed = Challenge(3).posed("attention_scores")
    case = next(case for case in posed.cases if case.label == wrong.where.case)
    own = transposed(*case.args)
    assert [[float(entry) for entry in row] for row in wrong.where.own] == pytest.approx(own[:MOST, :MOST], rel=6e-3)
    assert judge_function(posed.exercise.reference, "attention_scores", seed=3).where is None
    assert judge_function(lambda Q, K: 1 / 0, "attention_scores", seed=3).where is None


def test_it_is_kept_with_the_verdict(tmp_path):
    verdict = judge_function(transposed, "attention_scores", seed=3)
    keep(tmp_path, Graded("anna", UNIT, [verdict]))
    (again,) = read_kept(tmp_path, UNIT, "anna").verdicts
    assert again == verdict and picture(again.where) == picture(verdict.where) != ""


def test_verdicts_of_before_there_were_pictures_are_read(tmp_path):
    path = kept_with(tmp_path, None)
    content = json.loads(path.read_text())
    del content["verdicts"][0]["where"]
    path.write_text(json.dumps(content))
    assert read_kept(tmp_path, UNIT, "anna").verdicts[0].where is None
