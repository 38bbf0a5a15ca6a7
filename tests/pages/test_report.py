"""The class report: its numbers, its page, its tables, and that nothing in them is run by whoever opens them."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import nbformat.v3
import pytest
from rich.console import Console

from asked import points_of
from autograder.cli import main
from autograder.exercises import find_exercise, title_of_mistake
from autograder.gradebook.marks import class_now
from autograder.grading.results_store import keep
from autograder.pages.charts import chart
from autograder.pages.class_summary import NOT_RECOGNISED, summarise
from autograder.pages.report import page, print_report, score_rows
from autograder.reading.tamper_flags import _reached, odd_things
from autograder.records import Graded, Verdict

ROOT = Path(__file__).parents[2]
UNIT = "03_masking"
FUNCTIONS = points_of(UNIT)
TITLE = title_of_mistake("divided-by-d", "masked_attention")
(ADVICE,) = (each.advice for each in find_exercise("masked_attention").mistakes if each.slug == "divided-by-d")
EVIL = "<img src=x onerror=alert(1)>\x1b[31m\"&'</td></svg><script>alert(2)</script>"


def verdicts(**changed: tuple[str, float, str | None]) -> list[Verdict]:
    """All right, but for function=(verdict, score, mistake)."""
    found = []
    for name, points in FUNCTIONS.items():
        verdict, score, mistake = changed.get(name, ("right", points, None))
        found.append(
            Verdict(
                UNIT, name, points, score, verdict, mistake, f"About {name}. Your function first fails in the case “a”."
            )
        )
    return found


@pytest.fixture
def course(tmp_path):
    """A course folder whose class has been graded, one of them under a name that wants to be more than text."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    shutil.copytree(ROOT / "notebooks" / UNIT, tmp_path / "notebooks" / UNIT)
    nobody = {"leaks_future": ("wrong", 0.0, "always-false")}
    items = [
        Graded("anna", UNIT, verdicts(**nobody)),
        Graded("ben", UNIT, verdicts(masked_attention=("wrong", 1.0, "divided-by-d"), **nobody)),
        Graded("=cmd|'x'", UNIT, verdicts(masked_attention=("wrong", 0.0, "divided-by-d"), **nobody)),
        Graded("[red]dora", UNIT, verdicts(causal_mask=("timeout", 0.0, None), **nobody)),
        Graded("emil", UNIT, verdicts(padding_mask=("forbidden", 0.0, None), leaks_future=("missing", 0.0, None))),
        Graded("evil", UNIT, verdicts(causal_mask=("crashed", 0.0, None), **nobody)),
        Graded("fay", UNIT, verdicts(**dict.fromkeys(FUNCTIONS, ("missing", 0.0, None))), f"{EVIL}: cut off"),
    ]
    items[5].verdicts[0] = Verdict(UNIT, "causal_mask", 1, 0.0, "crashed", None, EVIL)
    for item in items:
        keep(tmp_path, item)
    page = tmp_path / "grading" / "feedback" / "anna" / UNIT / f"{UNIT}.html"
    page.parent.mkdir(parents=True)
    page.write_text("anna's")
    return tmp_path


def report(course: Path, capsys, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["--course", str(course), "report", *words])
    return status, *capsys.readouterr()


def rows(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_the_terminal_shows_what_it_did_and_names_the_files(course, capsys):
    status, out, err = report(course, capsys)
    assert status == 0
    assert "Most common mistakes" in out and "index.html" in out
    assert "[red]dora" in out
    assert "\x1b" not in out + err and "\\x1b" in err
    assert sorted(path.name for path in (course / "grading/report").iterdir()) == [
        "index.html",
        "mistakes.csv",
        "predictions.html",
        "scores.csv",
    ]


def test_a_problem_is_one_whole_line_on_stderr_and_nowhere_else(course, capsys):
    long = f"/{'folder/' * 40}a.ipynb: cut off"
    keep(course, Graded("gil", UNIT, verdicts(), long))
    _, out, err = report(course, capsys)
    assert [line for line in err.splitlines() if "gil" in line] == [f"autograder: gil: {long}"]
    assert "cut off" not in out and len(err.splitlines()) == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_no_number_is_cut_and_no_name_broken(course, terminal):
    marks = {name: ("wrong", points - 0.25, "divided-by-d") for name, points in FUNCTIONS.items()}
    graded = [*class_now(course), Graded("a-student-with-a-long-name", UNIT, verdicts(**marks))]
    text = io.StringIO()
    print_report(graded, Console(file=text, width=60, force_terminal=terminal, color_system=None))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", text.getvalue())
    place = [*FUNCTIONS].index("masked_attention") + 1
    row = next(line for line in shown.splitlines() if "long-name" in line)
    assert "…" not in shown
    assert [float(cell) for cell in row.split("│")[2:-1]] == [n - 0.25 for n in FUNCTIONS.values()] + [
        sum(FUNCTIONS.values()) - 0.25 * len(FUNCTIONS)
    ]
    assert all(name in shown for name in FUNCTIONS)
    assert (f"3.{place} masked_attention" in " ".join(shown.split())) == terminal, (
        "numbers where there is no room for names"
    )


def test_the_numbers(course):
    summary = summarise(course, class_now(course))
    (unit,) = summary.units
    parts = {part.function: part for part in unit.exercises}
    assert parts["masked_attention"].counts == {"right": 4, "partly": 1, "wrong": 1, "missing": 1, "waiting": 0}
    (entry,) = parts["masked_attention"].mistakes
    assert (entry.students, entry.count, entry.answers) == (["=cmd|'x'", "ben"], 2, 6)
    assert entry.advice == ADVICE
    assert [(each.name, each.students) for each in parts["causal_mask"].mistakes] == [
        (NOT_RECOGNISED, ["[red]dora", "evil"])
    ]
    worth = FUNCTIONS["masked_attention"]
    assert (parts["masked_attention"].mean, parts["masked_attention"].median) == ((4 * worth + 1) / 7, worth)
    median = sum(FUNCTIONS.values()) - FUNCTIONS["leaks_future"] - FUNCTIONS["causal_mask"]  # dora's and evil's
    assert (unit.median, unit.mean) == (median, pytest.approx(sum(unit.sums) / 7))
    assert summary.unsolved == [(UNIT, "leaks_future")]
    assert [remark.student for remark in summary.forbidden] == ["emil"]
    assert {remark.student for remark in summary.stopped} == {"[red]dora", "evil"}
    assert [remark.student for remark in summary.unreadable] == ["fay"]


def test_the_most_common_mistakes_come_first_and_hold_no_students_words(course):
    tail = "What fails: axes. Your function first fails in the case “a”: it is not. Passed: values 6/6, no side effects 0/1."
    items = [
        Graded(f"s{n}", UNIT, [replace(v, mistake=f"mistake-{n // 2}", verdict="wrong", message=tail, advice=advice)])
        for n, advice in enumerate(["What fails: axes."] * 13)
        for v in verdicts()[:1]
    ]
    items.append(Graded("last", UNIT, [replace(items[0].verdicts[0], mistake="mistake-3")]))
    summary = summarise(course, items)
    assert [entry.name for entry in summary.most_common] == ["mistake-3", *(f"mistake-{n}" for n in (0, 1, 2, 4))]
    assert summary.most_common[0].students == ["last", "s6", "s7"]
    assert {entry.advice for entry in summary.units[0].exercises[0].mistakes} == {"What fails: axes."}


def test_scores_and_mistakes_as_tables(course, capsys):
    report(course, capsys, "--out", str(course / "out"))
    head, *body = rows(course / "out" / "scores.csv")
    assert head == ["student", *(f"{UNIT} {name} /{points:g}" for name, points in FUNCTIONS.items()), "sum"]
    scores = {row[0]: row[1:] for row in body}
    expected = sum(FUNCTIONS.values()) - FUNCTIONS["leaks_future"] - (FUNCTIONS["masked_attention"] - 1)
    assert float(scores["ben"][-1]) == sum(map(float, scores["ben"][:-1])) == expected
    assert ["unit", "exercise", "mistake", "students", "answers", "advice"] in rows(course / "out" / "mistakes.csv")
    for name in ("scores.csv", "mistakes.csv"):
        for row in rows(course / "out" / name):
            assert not [cell for cell in row if re.match(r"[=+\-@\t\r]", cell)]
    assert "'=cmd|'x'" in scores


def test_what_lateness_costs_stands_in_table_and_page(course):
    items = [Graded("ann", UNIT, verdicts(), penalty=2.5), Graded("bo", UNIT, verdicts())]
    summary = summarise(course, items)
    head, ann, bo, *_ = score_rows(summary)
    full = sum(FUNCTIONS.values())
    assert [row[-2:] for row in (head, ann, bo)] == [
        [f"{UNIT} late", "sum"],
        ["-2.5", f"{full - 2.5:g}"],
        ["", f"{full:g}"],
    ]
    text = page(summary, course, course)
    assert text.count('<th scope="col">late</th>') == 1 and "<td>-2.5</td>" in text
    in_time = summarise(course, [replace(items[0], penalty=0.0)])
    assert "late" not in score_rows(in_time)[0][-2] and '<th scope="col">late</th>' not in page(in_time, course, course)


class Reader(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.attributes, self.text = set(), [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def read(course: Path, capsys) -> tuple[str, Reader]:
    report(course, capsys)
    page = (course / "grading" / "report" / "index.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(page)
    return page, reader


def test_the_page_runs_nothing_and_asks_nothing_of_the_network(course, capsys):
    page, reader = read(course, capsys)
    assert not reader.tags & {"script", "img", "iframe", "object", "embed", "link", "form", "base", "video"}
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    links = [value for name, value in reader.attributes if name in ("href", "src", "action", "data")]
    assert set(links) - {link for link in links if link.startswith("#")} == {
        f"../feedback/anna/{UNIT}/{UNIT}.html",
        "predictions.html",
    }
    assert "default-src 'none'" in page and "@import" not in page and "url(" not in page
    assert "\x1b" not in page


def test_the_page_says_what_there_is_to_say(course, capsys):
    page, reader = read(course, capsys)
    text = " ".join(" ".join(reader.text).split())
    told = f"{TITLE} {ADVICE}"
    who = "2 of 6 who =cmd|'x', ben"
    assert f"{who} {told}" in text and f"{who} a {told}" in text, "among the most common, and by exercise"
    assert text.index("5 of 5") < text.index("2 of 6 who"), "the most common first"
    assert "2 of 6 who [red]dora, evil not recognised: 2" in text
    assert "mean" in text and "median" in text
    assert "leaks_future in 03_masking" in text
    assert "alert(2)" in text and "[red]dora" in text
    assert "prefers-color-scheme: dark" in page
    assert page.count("<title>Answers by exercise") == 0 and "Answers by exercise</title>" in page


def test_no_slug_of_a_mistake_is_shown_to_people(course, capsys):
    slug, other = "divided-by-d", "div-left-out-sqrt-d-k"
    marks = {"masked_attention": ("wrong", 0.0, slug), "causal_mask": ("wrong", 0.0, other)}
    keep(course, Graded("gil", UNIT, verdicts(**marks)))
    page, _ = read(course, capsys)
    _, printed, _ = report(course, capsys)
    table = (course / "grading" / "report" / "mistakes.csv").read_text(encoding="utf-8")
    for shown in (page, printed, table):
        assert TITLE in shown and "A division missing" in shown
        assert slug not in shown and other not in shown


def test_the_chart_has_its_numbers_and_words_for_who_cannot_see_it(course):
    image = chart(summarise(course, class_now(course)))
    assert image.startswith('<svg role="img" aria-labelledby="chart-title chart-text"')
    assert "<desc" in image and "The fewest: leaks_future, 0%" in image
    assert "1 of 7 partly right" in image
    for name in FUNCTIONS:
        assert f">{name}</text>" in image


def test_json_is_only_printed(course, capsys):
    status, out, _ = report(course, capsys, "--json")
    assert status == 0 and {"verdicts", "mistakes", "items", "predictions"} == set(json.loads(out))
    assert not (course / "grading" / "report").exists()


def test_where_it_cannot_be_written_is_one_line(course, capsys):
    (course / "file").write_text("")
    status, _, err = report(course, capsys, "--out", str(course / "file" / "under"))
    assert status == 2 and err.count("\n") == 1 and "cannot be written" in err


# --- what was handed in ----------------------------------------------------------------------------------------------


@pytest.fixture
def release():
    return nbformat.read(ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)


def words(path: Path, notebook, release) -> dict[str, list[str]]:
    nbformat.write(notebook, path)
    found: dict[str, list[str]] = {"cells": [], "code": []}
    for kind, text in odd_things(path, release):
        found[kind].append(text)
    return found


def named(notebook, name: str):
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name)


def test_a_solution_and_an_untouched_release_are_not_odd(tmp_path, release):
    path = tmp_path / "a.ipynb"
    assert words(path, release, release) == {"cells": [], "code": []}
    own = nbformat.from_dict(release)
    named(own, "causal_mask").source = "def causal_mask(n):\n    return np.tril(np.ones((n, n), bool))"
    own.cells.insert(3, nbformat.v4.new_code_cell("%matplotlib inline\ntorch.backends.cudnn.enabled = False\nx = 1"))
    assert words(path, own, release) == {"cells": [], "code": []}


def test_deleted_doubled_changed_and_skipped_cells_are_named(tmp_path, release):
    own = nbformat.from_dict(release)
    own.cells.remove(named(own, "padding_mask"))
    again = nbformat.from_dict(named(own, "test_masked_softmax"))
    own.cells.append(nbformat.from_dict({**again, "id": "again"}))
    named(own, "test_causal_mask").source = "pass"
    named(own, "test_leaks_future").metadata["tags"] = ["skip-execution"]
    assert words(tmp_path / "a.ipynb", own, release)["cells"] == [
        "deleted: padding_mask",
        "more than once: test_masked_softmax",
        "test changed: test_causal_mask",
        "tagged skip-execution: test_leaks_future",
    ]


def test_a_file_of_format_3_has_its_cells_too(tmp_path, release):
    def written(notebook):
        path = tmp_path / "a.ipynb"
        path.write_text(nbformat.v3.writes_json(nbformat.v4.downgrade(nbformat.from_dict(notebook))))
        return odd_things(path, release)

    own = nbformat.from_dict(release)
    assert written(own) == []
    own.cells.remove(named(own, "padding_mask"))
    named(own, "test_causal_mask").source = "pass"
    assert written(own) == [("cells", "deleted: padding_mask"), ("cells", "test changed: test_causal_mask")]


@pytest.mark.parametrize("sheets", ["7", "[7]", '[{"cells": 7}]', '[{"cells": [7, {}]}]'])
def test_odd_worksheets_do_not_stop_it(tmp_path, release, sheets):
    (tmp_path / "a.ipynb").write_text(f'{{"worksheets": {sheets}}}')
    assert not [kind for kind, _ in odd_things(tmp_path / "a.ipynb", release) if kind == "code"]


@pytest.mark.parametrize(
    "source, found",
    [
        ("import sys\nframe = sys._getframe()", "_getframe"),
        ("from ctypes import pythonapi", "import ctypes"),
        ("np.allclose = lambda *a: True", "np.allclose = …"),
        ("np.x[0].y = 1", "np.x[…].y = …"),
        ("np" + ".a" * 900 + " = 1", "np.a.a"),
        ("open('../solutions/03_masking/03_masking.ipynb')", "solutions/"),
    ],
)
def test_code_that_reaches_further_is_named(tmp_path, release, source, found):
    own = nbformat.from_dict(release)
    own.cells.append(nbformat.v4.new_code_cell(source))
    (text,) = words(tmp_path / "a.ipynb", own, release)["code"]
    assert found in text


def test_the_cell_for_colab_is_nothing_odd(tmp_path, release):
    guide = (Path(__file__).parents[2] / "docs" / "RUNNING.md").read_text(encoding="utf-8")
    own = nbformat.from_dict(release)
    own.cells.insert(0, nbformat.v4.new_code_cell(guide.partition("```python\n")[2].partition("```")[0]))
    assert "subprocess" in own.cells[0].source
    assert words(tmp_path / "a.ipynb", own, release) == {"cells": [], "code": []}


def test_looking_takes_time_in_proportion_to_the_code():
    def seconds(source: str) -> float:
        found = []
        for _ in range(5):
            started = time.process_time()
            assert list(_reached([source])) == []
            found.append(time.process_time() - started)
        return min(found)

    assert seconds("np " * 40_000) < 24 * max(seconds("np " * 5_000), 1e-4), "8 times the text"


@pytest.mark.parametrize(
    "content", [b"", b"[" * 100_000, b'{"cells": 7}', b'{"cells": [7, {"cell_type": "code"}]}', b"\xff"]
)
def test_files_that_are_no_notebooks_do_not_stop_it(tmp_path, release, content):
    (tmp_path / "a.ipynb").write_bytes(content)
    assert not [kind for kind, _ in odd_things(tmp_path / "a.ipynb", release) if kind == "code"]
    assert odd_things(tmp_path / "none.ipynb", release) == []
