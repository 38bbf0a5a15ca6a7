"""A class with hostile members, graded by one command: what is printed, exported and fed back is inert."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

import warm
from asked import points_of
from autograder.running.sandbox import preflight
from autograder.safe_text import UNSEEN, printable, spreadsheet_safe
from hostile import KINDS, ROOT, Attack

pytestmark = pytest.mark.skipif(preflight() is not None, reason=str(preflight()))

UNIT = "03_masking"
FULL = sum(points_of(UNIT).values())
#: Names of folders, as an unpacked archive may bring them, that are no students' IDs.
REFUSED = {
    "formula": "=HYPERLINK(1)",
    "at sign": "@SUM(1+1)|cmd",
    "comma": 'x,100,"100',
    "terminal": "esc\x1b[2J\x1b]0;title\x07",
    "direction": "b\u202eidi",
    "mark-up": "[red]r[link=x]y[bold",
    "html": "<img src=x onerror=alert(1)>",
    "line end": "l\nada: right",
    "pattern": "a[n]n?a*",
    "braces": "{student}{0}%s",
    "no text": "n\udcffo",
    "blanks": " ",
    "option": "--force",
}
#: And some that are.
NAMES = {"long": "l" * 200, "letters": "Žoë Ødegård", "signs": "a.b-c_d+e@x.edu", "marks": "हिन्दी"}
#: Kind -> its attacks that are members of the class; all of them where none is named.
MEMBERS = {
    "feedback": None,
    "files": ("a link", "a linked folder", "a pipe", "a device", "more files", "50 MB"),
    "notebooks": ("a kernel of its own", "odd metadata", "deep JSON", "doubled cells"),
}
HONEST = Attack("honest", "hands in the solutions")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return warm.command(folder, *words, COLUMNS="400")


class Graded(NamedTuple):
    """The course folder, what the command said, and the hostile members."""

    folder: Path
    done: subprocess.CompletedProcess[str]
    attacks: dict[str, Attack]


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> Graded:
    attacks = {
        attack.name.replace("'", ""): attack
        for kind, wanted in MEMBERS.items()
        for attack in KINDS[kind]
        if wanted is None or attack.name in wanted
    }
    folder = tmp_path_factory.mktemp("class")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name / UNIT, folder / name / UNIT)
    (folder / "autograder.toml").write_text("[limits]\nseconds_per_exercise = 4\nseconds_per_cell = 4\n")
    submitted = folder / "grading/submitted"
    members = {"anna": HONEST, **attacks, "mona": HONEST, "zoe": HONEST, **dict.fromkeys(NAMES.values(), HONEST)}
    members |= dict.fromkeys(REFUSED.values(), HONEST)
    for student, attack in members.items():
        attack.hand_in(submitted / student / UNIT / f"{UNIT}.ipynb", folder)
    done = run(folder, "autograder", "grade", UNIT, "--json", "--workers", "3")
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return Graded(folder, done, attacks)


def test_every_member_gets_what_is_due(graded):
    entries = json.loads(graded.done.stdout)
    named = dict.fromkeys(NAMES.values(), HONEST)
    for student, attack in {"anna": HONEST, **graded.attacks, "mona": HONEST, "zoe": HONEST, **named}.items():
        assert {e["function"]: e["score"] for e in entries if e["student"] == student} == attack.due(), student


def test_what_is_no_id_is_named_and_graded_nowhere(graded):
    folder, done, _ = graded
    assert len([line for line in done.stderr.splitlines() if "no student's ID" in line]) == len(REFUSED)
    for kind in ("autograded", "feedback", "verdicts"):
        names = {path.name.removesuffix(".json") for path in (folder / "grading" / kind).rglob("*")}
        assert not names & set(REFUSED.values()), kind
    assert not {entry["student"] for entry in json.loads(done.stdout)} & set(REFUSED.values())


def odd_letters(text: str) -> set[str]:
    return {letter for letter in text if letter != "\n" and unicodedata.category(letter) in UNSEEN}


def test_words_of_an_answer_command_no_terminal(graded):
    folder, done, _ = graded
    paths = sorted((folder / "grading/submitted").glob("a term*/*/*"))
    checked = run(folder, "autograder", "check", *map(str, paths))
    assert "hostile-mark" in checked.stdout
    assert odd_letters(checked.stdout + checked.stderr) == set()
    assert odd_letters("".join(entry["message"] for entry in json.loads(done.stdout))) == set()


def test_names_of_students_command_no_terminal(graded):
    folder, done, _ = graded
    shown = run(folder, "autograder", "report", UNIT)
    assert shown.returncode == 0, shown.stderr
    assert odd_letters(done.stderr + shown.stdout + shown.stderr) == set()


class Active(HTMLParser):
    """Collects what a page does or fetches: elements that act, handlers, addresses, styles."""

    ACTS = ("script", "iframe", "frame", "object", "embed", "link", "meta", "base", "form", "input", "style", "svg")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: set[tuple[str, str, str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.ACTS:
            self.found.add((tag, "", ""))
        for key, value in attrs:
            local = (value or "").startswith(("#", "data:image/png"))
            if key.startswith("on") or (key in ("src", "href", "data", "action", "srcset", "style") and not local):
                self.found.add((tag, key, value or ""))


def active(page: Path) -> set[tuple[str, str, str]]:
    parser = Active()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser.found


def test_a_feedback_page_does_nothing_that_an_honest_one_does_not(graded):
    pages = {page.parts[-3]: page for page in graded.folder.glob(f"grading/feedback/*/{UNIT}/*.html")}
    usual = active(pages["anna"])
    assert set(pages) >= {"anna", *graded.attacks}
    for student, page in pages.items():
        assert active(page) - usual == set(), student
        text = page.read_text(encoding="utf-8")
        for trace in ("<script>alert", "onerror=alert(1)>", "//evil.example'>", "application/javascript"):
            assert trace not in text, (student, trace)


def test_recorded_notebooks_hold_text_alone(graded):
    for path in graded.folder.glob(f"grading/autograded/*/{UNIT}/*.ipynb"):
        document = json.loads(path.read_text(encoding="utf-8"))
        assert not [cell for cell in document["cells"] if cell.get("attachments")]
        outputs = [output for cell in document["cells"] for output in cell.get("outputs", [])]
        assert all(set(output.get("data", {"text/plain": ""})) == {"text/plain"} for output in outputs)
        assert document["metadata"].get("kernelspec", {}).get("name") == "python3"
        assert sorted(p.name for p in path.parent.iterdir()) == [path.name]


def test_the_table_of_scores_runs_nothing(graded):
    folder = graded.folder
    done = run(folder, "nbgrader", "export", "--to", str(folder / "grades.csv"))
    assert done.returncode == 0, done.stderr
    with open(folder / "grades.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert {len(row) for row in rows} == {11}
    for cell in (cell for row in rows for cell in row):
        assert cell == spreadsheet_safe(cell)
    scores = {row[3]: float(row[9]) for row in rows[1:]}
    assert scores["anna"] == scores["mona"] == scores["zoe"] == FULL
    assert all(0 <= score <= FULL for score in scores.values())


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("ada", "ada"),
        ("-3.5", "-3.5"),
        ("=1+1", "'=1+1"),
        ("'=1", "'=1"),
        ("＝1", "'＝1"),
        (" @SUM(1)", "' @SUM(1)"),
        ("+49 30 1", "'+49 30 1"),
        ("\t=1", "' =1"),
        ("a\nb\x1b\u202e", "a b\\x1b\\u202e"),
        ("Ärger ✓ 数", "Ärger ✓ 数"),
    ],
)
def test_text_for_a_spreadsheet(text, safe):
    assert spreadsheet_safe(text) == safe
    assert printable(safe) == safe
