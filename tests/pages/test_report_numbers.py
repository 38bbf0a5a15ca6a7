"""The class report's item analysis against SciPy, its map of mistakes, and its time line."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import pytest

from autograder.gradebook.submission_times import days_of_handing_in
from autograder.grading import results_store
from autograder.grading.results_store import keep
from autograder.pages import charts
from autograder.pages.charts import heat_map
from autograder.pages.class_summary import ALIKE, FEWEST, TOO_FEW, items, summarise
from autograder.pages.report import page, write_report
from autograder.records import Graded, PointInTime, Verdict

UNIT = "03_masking"
POINTS = {"causal_mask": 1, "padding_mask": 2, "masked_softmax": 3, "leaks_future": 4}
EVIL = "<img src=x onerror=alert(1)>\"&'</td></table><script>alert(2)</script>"


def graded(student: str, shares, unit: str = UNIT, **changed) -> Graded:
    found = []
    for (name, points), share in zip(POINTS.items(), shares, strict=True):
        verdict, mistake = ("right", None) if share == 1 else ("wrong", f"slip-{name}" if share else None)
        verdict, mistake = changed.get(name, (verdict, mistake))
        found.append(Verdict(unit, name, points, points * share, verdict, mistake, "Said."))
    return Graded(student, unit, found)


def a_class(size: int, seed: int = 1) -> list[Graded]:
    """Students of whom some are better than others, at exercises of which some are harder."""
    chance = np.random.default_rng(seed)
    skill = chance.normal(size=(size, 1))
    won = skill + chance.normal(size=(size, 4)) > [-1.0, 0.0, 0.3, 0.8]
    shares = np.where(won, 1.0, chance.choice([0.0, 0.5], size=(size, 4)))
    return [graded(f"s{place:03}", row) for place, row in enumerate(shares.tolist())]


def analysed(tmp_path, found: list[Graded]) -> dict[str, object]:
    return {item.function: item for item in items(summarise(tmp_path, found))}


# --- item analysis ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "seed"), [(FEWEST, 4), (37, 1), (300, 1)])
def test_the_numbers_are_those_of_scipy(tmp_path, size, seed):
    found = a_class(size, seed)
    told = analysed(tmp_path, found)
    scores = np.array([[verdict.score for verdict in item.verdicts] for item in found])
    right = np.array([[verdict.verdict == "right" for verdict in item.verdicts] for item in found])
    for place, (name, points) in enumerate(POINTS.items()):
        item = told[name]
        assert item.students == size and item.right == pytest.approx(right[:, place].mean())
        assert item.points == pytest.approx(scores[:, place].mean() / points)
        rest = scores.sum(axis=1) - scores[:, place]
        assert item.discrimination == pytest.approx(np.corrcoef(right[:, place], rest)[0, 1])


def test_few_students_and_all_alike_have_no_correlation(tmp_path):
    few = analysed(tmp_path, a_class(FEWEST - 1))
    assert {(item.discrimination, item.why) for item in few.values()} == {(None, TOO_FEW)}
    alike = analysed(tmp_path, [graded(f"s{n}", (1, n % 2, 0.5, 0.5)) for n in range(20)])
    assert alike["causal_mask"].why == alike["leaks_future"].why == ALIKE
    assert alike["padding_mask"].why == ALIKE, "the rest of the score is the same for all"


def test_who_waits_for_a_mark_does_not_count_and_what_waits_is_no_part_of_the_rest(tmp_path):
    found = [
        graded(f"s{n}", (n % 2, n % 3 == 0, 1, 0), leaks_future=("waiting" if n < 5 else "wrong", None))
        for n in range(20)
    ]
    told = analysed(tmp_path, found)
    assert told["leaks_future"].students == 15 and told["causal_mask"].students == 20
    rest = [2 * (n % 3 == 0) + 3 for n in range(20)]
    assert told["causal_mask"].discrimination == pytest.approx(np.corrcoef([n % 2 for n in range(20)], rest)[0, 1])


# --- the map ---------------------------------------------------------------------------------------------------------


def table(text: str) -> list[list[tuple[str, str]]]:
    tree = ElementTree.fromstring(text)
    return [[("".join(cell.itertext()), cell.get("class", "")) for cell in row] for row in tree.iter("tr")]


def test_each_cell_has_its_sign_and_the_best_come_first(tmp_path):
    found = [
        graded("anna", (1, 1, 1, 1)),
        graded("ben", (0, 0.5, 0, 0), causal_mask=("crashed", None), leaks_future=("missing", None)),
        graded("carl", (1, 0.5, 0, 0), padding_mask=("wrong", "other"), masked_softmax=("forbidden", None)),
        graded("dan", (1, 0.5, 0, 0), masked_softmax=("timeout", None), leaks_future=("waiting", None)),
        graded("eve", (1, 1, 1, 1), unit="04_other"),
    ]
    _, names, *rows, foot = table(heat_map(summarise(tmp_path, found)))
    assert [text for text, _ in names[:4]] == list(POINTS)
    cells = {row[0][0]: [text for text, _ in row[1:]] for row in rows}
    assert list(cells)[:2] == ["anna", "eve"]
    assert cells["anna"] == ["100%", "✓", "✓", "✓", "✓", "", "", "", ""]
    assert cells["ben"][:5] == ["10%", "!", "a", "?", "·"]
    assert cells["carl"][:5] == ["20%", "✓", "b", "✗", "?"]
    assert cells["dan"][:5] == ["20%", "✓", "a", "∞", "…"]
    assert cells["eve"][1:5] == [""] * 4
    assert [text for text, _ in foot[2:6]] == ["75", "25", "25", "25"]


def test_letters_lead_to_the_list_of_mistakes(tmp_path):
    text = page(summarise(tmp_path, a_class(30)), tmp_path, tmp_path)
    links = set(re.findall(r'href="#(mistakes-[^"]*)"', text))
    assert links and links <= set(re.findall(r'id="([^"]*)"', text))
    assert re.search(r"<b>a</b> Slip ", text), text[:0]


def test_a_name_that_wants_to_be_more_is_text(tmp_path):
    item = graded(EVIL, (1, 0, 1, 1))
    item.verdicts.append(Verdict(UNIT, EVIL, 1, 0.5, "wrong", EVIL, EVIL))
    text = page(summarise(tmp_path, [item]), tmp_path, tmp_path, [PointInTime(datetime.now(UTC), {EVIL: (2, 1)})] * 2)
    assert "<script" not in text and "<img" not in text


def test_a_class_of_three_hundred_is_a_page_that_can_be_sent(tmp_path):
    size = len(page(summarise(tmp_path, a_class(300)), tmp_path, tmp_path))
    assert size < 300 * 4 * 300, "of four exercises: less than 300 bytes for an answer, in all tables together"


# --- the time line ---------------------------------------------------------------------------------------------------

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def a_run(day: float, **units: tuple[int, int]) -> PointInTime:
    return PointInTime(START + timedelta(days=day), units)


def test_a_run_of_one_unit_leaves_the_others_as_they_were():
    overall, first, second = charts.lines([a_run(0, u1=(10, 5)), a_run(7, u2=(10, 10)), a_run(14, u1=(10, 9))])
    assert [share for _, share in overall.points] == [0.5, 0.75, 0.95]
    assert [share for _, share in first.points] == [0.5, 0.9] and [share for _, share in second.points] == [1.0]


@pytest.mark.parametrize(
    ("past", "words"),
    [
        ([], "No run has noted yet"),
        ([a_run(0, u1=(0, 0))], "No run has noted yet"),
        (
            [a_run(0, u1=(10, 5))],
            "One run so far, on 1 March 2026: 50% of all answers right. A line needs a second one.",
        ),
    ],
)
def test_with_fewer_than_two_runs_it_says_so_and_draws_nothing(past, words):
    assert charts.runs_in_words(past).startswith(words) and charts.timeline(past, words) == ""


def test_the_drawing_is_within_its_bounds_and_says_what_it_shows():
    chance = np.random.default_rng(3)
    past = [a_run(day, **{f"{u:02}_unit": (20, int(chance.integers(21))) for u in range(1, 11)}) for day in range(200)]
    tree = ElementTree.fromstring(charts.timeline(past, charts.runs_in_words(past)))
    assert tree.get("aria-label") == charts.runs_in_words(past) and "60 runs from 19 July 2026" in charts.runs_in_words(
        past
    )
    lines = list(tree.iter("polyline"))
    assert len(lines) == 11
    for line in lines:
        spots = [tuple(map(float, spot.split(","))) for spot in line.get("points").split()]
        assert len(spots) == charts.MOST
        assert all(0 <= x <= charts.WIDTH and 0 <= y <= charts.HEIGHT for x, y in spots)
    heights = sorted(float(node.get("y")) for node in tree.iter("text") if node.get("class") == "name")
    assert min(np.diff(heights)) >= 11, "no label lies on another"


def test_runs_of_the_same_moment_are_no_line():
    assert charts.timeline([a_run(0, u1=(10, 5))] * 2, "") == ""


def test_a_run_notes_how_the_class_stands_and_no_name(tmp_path):
    for item in a_class(12):
        keep(tmp_path, item)
    results_store.begun(tmp_path, 7, "autograder grade")
    results_store.finished(tmp_path, 7, [UNIT])
    results_store.finished(tmp_path, 7)
    (found,) = [run for run in results_store.past(tmp_path) if run.units]
    right = sum(verdict.verdict == "right" for item in a_class(12) for verdict in item.verdicts)
    assert found.units == {UNIT: (48, right)}
    text = (tmp_path / "grading" / results_store.NAME).read_text()
    assert "s000" not in text and results_store.interrupted(tmp_path) is None


@pytest.mark.parametrize(
    "line",
    [
        "", "{", "7", "[]", "{}", '{"units": 7}', '{"units": {"a": [1]}}', '{"units": {"a": [1, 1]}, "time": "soon"}',
        '{"units": {"a": ["x", 1]}, "time": "2026-03-01T12:00:00+0000", "state": "finished"}',
        '{"units": {"a": [1, 2]}, "time": "2026-03-01T12:00:00+0000", "state": "finished"}',
        '{"units": {"a": [2, 1]}, "time": "2026-03-01T12:00:00+0000", "state": "begun"}',
    ],
)  # fmt: skip
def test_lines_that_say_nothing_are_passed_over(tmp_path, line):
    (tmp_path / "grading").mkdir()
    (tmp_path / "grading" / results_store.NAME).write_text(line + "\n")
    assert list(results_store.past(tmp_path)) == []


def test_the_page_has_the_drawing_and_its_numbers(tmp_path):
    past = [a_run(0, **{UNIT: (40, 20)}), a_run(9, **{UNIT: (44, 33)})]
    write_report(summarise(tmp_path, a_class(30)), tmp_path / "out", tmp_path, runs=past)
    text = (tmp_path / "out" / "index.html").read_text()
    assert "2 runs from 1 March 2026 to 10 March 2026: 50% of all answers were right after the first, 75% after" in text
    assert "<polyline" in text and "01 Mar 12:00: 50 %; 10 Mar 12:00: 75 %" in text


def test_days_of_handing_in_are_drawn_where_their_times_are_known(tmp_path):
    found, times = a_class(30), ["2026-03-01 23:00 UTC", "2026-03-02 01:00 UTC", "2026-03-04 10:00 UTC", "soon"]
    for place, item in enumerate(found[:-1]):
        folder = tmp_path / "grading" / "submitted" / item.student / UNIT
        folder.mkdir(parents=True)
        (folder / "timestamp.txt").write_text(times[place % 4])
    days = days_of_handing_in(tmp_path, found)
    assert [f"{day.time:%m-%d}" for day in days] == ["03-01", "03-02", "03-04"]
    right = [sum(verdict.verdict == "right" for verdict in item.verdicts) for item in found[:-1]]
    assert [day.units for day in days] == [{"handed in": (4 * len(right[n::4]), sum(right[n::4]))} for n in range(3)], (
        "what has no time, or none that can be read, is left out"
    )
    (line,) = charts.lines(days)
    assert len(line.points) == 3 and charts.days_in_words(days).startswith("3 days from 1 March 2026 to 4 March 2026")
    write_report(summarise(tmp_path, found), tmp_path / "out", tmp_path, days=days)
    assert "By the day of handing in" in (tmp_path / "out" / "index.html").read_text()
    assert charts.days_in_words(days[:1]) == "" == charts.days_in_words([])


def test_other_programs_get_the_analysis_as_json(tmp_path):
    told = [item.as_json() for item in items(summarise(tmp_path, a_class(30)))]
    assert json.loads(json.dumps(told)) == told
    assert set(told[0]) == {"unit", "function", "students", "right", "points", "discrimination", "why"}
