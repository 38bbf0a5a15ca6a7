"""The feedback page: what a student sees first, that it does nothing by itself, and that no text makes it slow."""

from __future__ import annotations

import html
import re
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest

from asked import points_of
from autograder.exercises import unit_names
from autograder.grading.submission_jobs import with_outputs
from autograder.pages.feedback_page import FeedbackPages
from autograder.pages.html_rendering import coloured, mathml, rendered
from autograder.records import Graded, Verdict

ROOT = Path(__file__).parents[2]
UNIT = "03_masking"
POINTS = points_of(UNIT)

#: Texts of about n letters on which lexers look ahead or back.
TEXTS = {
    "blank lines": lambda n: "x = 1\n" + " \n" * (n // 2) + "y = 2",
    "attributes": lambda n: "x" + ".a" * (n // 2),
    "words": lambda n: "np " * (n // 3),
    "one word": lambda n: "r" * n,
    "digits": lambda n: "0" * n,
    "quotes": lambda n: "'" * n,
    "open strings": lambda n: "'a\\\n" * (n // 4),
    "open long strings": lambda n: '"""' + '""x' * (n // 3),
    "backslashes": lambda n: "\\" * n,
    "comments": lambda n: "#" * n,
    "brackets": lambda n: "(" * n,
    "magics": lambda n: "%" * n + "\n!" * (n // 2),
    "letters that cannot be seen": lambda n: "\u202e\x1b" * (n // 2),
    "mark-up": lambda n: "<&" * (n // 2),
}


def seconds(work, *given) -> float:
    found = []
    for _ in range(5):
        started = time.process_time()
        work(*given)
        found.append(time.process_time() - started)
    return min(found)


def plain(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page))


@pytest.mark.parametrize("name", TEXTS)
def test_colouring_leaves_the_text_as_it_is(name):
    text = TEXTS[name](300).replace("\u202e", "").replace("\x1b", "")
    assert plain(coloured(text)) == text


def test_each_kind_of_token_has_its_colour():
    code = 'def f(x):\n    """Long,\n    "two" lines."""\n    return len(x) + 1.5e3, rb\'a\\\'b\', None  # why'
    found = re.findall(r'<span class="(\w+)">(.*?)</span>', coloured(code), re.DOTALL)
    assert [(kind, html.unescape(text)) for kind, text in found] == [
        ("k", "def"),
        ("s", '"""Long,\n    "two" lines."""'),
        ("k", "return"),
        ("nb", "len"),
        ("m", "1.5e3"),
        ("s", "rb'a\\'b'"),
        ("m", "None"),
        ("c", "# why"),
    ]


def test_letters_that_cannot_be_seen_are_spelt_out():
    shown = coloured("a = '\u202e\u2066\u2028\x1c\x85\x00é数'\n\tb")
    assert plain(shown) == "a = '\\u202e\\u2066\\u2028\\x1c\\x85\\x00é数'\n\tb"


# --- the page --------------------------------------------------------------------------------------------------------

WRONG = Verdict(
    UNIT, "causal_mask", 1, 0.0, "wrong", "strict", "Too <b>strict</b>. Your function first fails in the case “n = 4”: it is not. "
    "Passed: values 0/4.", advice="Too <b>strict</b>."
)  # fmt: skip


def recorded(*changed: Verdict, unreadable: bool = False, manual: dict[str, float] | None = None, comment: str = ""):
    """A graded notebook as nbgrader hands it to the page, its grades, and the verdicts."""
    verdicts = {name: Verdict(UNIT, name, n, float(n), "right", None, "Right.") for name, n in POINTS.items()}
    verdicts |= {verdict.function: verdict for verdict in changed}
    notebook = nbformat.read(ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)
    notebook = with_outputs(notebook, list(verdicts.values()))
    scores = {name: verdict.score for name, verdict in verdicts.items()} | (manual or {})
    for cell in notebook.cells:
        told = cell.metadata.get("nbgrader", {})
        if told.get("grade"):
            name = told["grade_id"].removeprefix("test_")
            told["score"], told["by_hand"] = scores[name], name in (manual or {})
        elif told.get("solution"):
            told["comment"] = comment if told["grade_id"] == "causal_mask" else None
    grades = {"notebook": UNIT, "score": sum(scores.values()), "max_score": sum(POINTS.values()), "late_penalty": 0}
    return notebook, grades, Graded("anna", UNIT, list(verdicts.values()), "cut off" if unreadable else None)


def box(page: str) -> str:
    return page[page.index('<section class="box"') : page.index("</section>")]


def words(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def test_the_advice_stands_at_the_top_and_the_verdict_above_the_folded_test():
    page = FeedbackPages().page(*recorded(WRONG))
    top = box(page)
    total = sum(POINTS.values())
    assert f"Score: {total - 1:g} of {total:g} points" in top
    assert '<a href="#test_causal_mask"><code>causal_mask</code></a>' in top
    assert "0 of 1 ✗ wrong Too <b>strict</b>." in words(top) and "first fails" not in top
    verdict, test = page.index('id="test_causal_mask"'), page.index("<details><summary>The test that you had")
    assert page.index('id="answer-causal_mask"') < verdict < test
    assert "Too <b>strict</b>. Your function first fails in the case “n = 4”: it is not. Passed" in words(
        page[verdict:test]
    )
    assert page.count("✓ right") == 2 * (len(POINTS) - 1), "each right one in the box and above its test"
    assert "Out[" not in page and "0.0" not in words(page[verdict:test])


def test_the_table_on_top_of_the_page_shows_the_exception():
    told = "It raises NameError: name '<b>`' is not defined (line 2 of the cell)."
    verdict = replace(WRONG, verdict="crashed", mistake=None, message=f"{told} More.", advice="More.", raised=told)
    assert f"! crashed {told} More." in words(box(FeedbackPages().page(*recorded(verdict))))


def test_a_mark_that_was_changed_by_hand_and_a_comment_are_shown():
    page = FeedbackPages().page(*recorded(WRONG, manual={"causal_mask": 0.25}, comment="*Nearly*: see $n^2$."))
    assert "0.25 of 1 ◐ partly right Changed by hand. Too <b>strict</b>. Comment" in words(box(page))
    assert 'href="#comment-causal_mask"' in page and "<em>Nearly</em>" in page
    assert "Changed by hand" not in FeedbackPages().page(*recorded(WRONG, comment="No response."))
    assert "Comment" not in FeedbackPages().page(*recorded(WRONG, comment="No response."))


def test_code_between_backticks_is_shown_as_code_and_escaped():
    told = "Write `import numpy as np`. It raises KeyError: `<img src=x onerror=alert(1)>` and ` alone <b>."
    page = FeedbackPages().page(*recorded(replace(WRONG, message=told, advice=told)))
    assert page.count("<code>import numpy as np</code>") == 2
    assert page.count("<code>&lt;img src=x onerror=alert(1)&gt;</code> and ` alone &lt;b&gt;.") == 2
    assert "<img src" not in page


def test_for_a_file_that_cannot_be_read_one_sentence_stands_at_the_top():
    nothing = [Verdict(UNIT, name, n, 0.0, "missing", None, "x.ipynb: cut off") for name, n in POINTS.items()]
    page = FeedbackPages().page(*recorded(*nothing, unreadable=True))
    assert page.count("x.ipynb: cut off") == 1 and "x.ipynb: cut off" in box(page)
    assert "Your answer:" not in page


def test_the_page_fetches_and_runs_nothing():
    page = FeedbackPages().page(*recorded(WRONG))
    assert not re.findall(r"<(script|link|img|iframe|object|embed|base|form)\b", page)
    assert "default-src 'none'" in page and "@import" not in page and "url(" not in page
    assert not [word for word in re.findall(r"https?://[^\s\"'<]+", page) if "MathML" in word and "w3.org" not in word]
    places = set(re.findall(r'id="([^"]+)"', page))
    assert {link[1:] for link in re.findall(r'href="(#[^"]*)"', page)} <= places


@pytest.mark.parametrize("name", TEXTS)
def test_a_page_takes_time_in_proportion_to_what_a_student_wrote(name):
    def made(length: int) -> str:
        notebook, *others = recorded()
        notebook.cells = [nbformat.v4.new_code_cell(TEXTS[name](length), id="extra-1")]
        return pages.page(notebook, *others)

    pages = FeedbackPages()
    assert seconds(made, 80_000) < 24 * max(seconds(made, 10_000), 1e-3), "8 times the text"


# --- its prose -------------------------------------------------------------------------------------------------------


def test_a_picture_that_a_notebook_carries_is_shown_by_its_words():
    page = rendered("![two lines <cross>](attachment:picture.png)\n\nWhat to see.")
    assert "<em>two lines &lt;cross&gt;</em>" in page and "What to see." in page and "attachment" not in page


@pytest.mark.parametrize("unit", unit_names())
def test_each_formula_of_the_course_becomes_mathml(unit):
    notebook = nbformat.read(ROOT / "notebooks" / unit / f"{unit}.ipynb", as_version=4)
    prose = "".join(rendered(cell.source) for cell in notebook.cells if cell.cell_type == "markdown")
    formulas = re.findall(r"<math.*?</math>", prose, re.DOTALL)
    assert len(formulas) > 40
    for formula in formulas:
        text = "".join(ElementTree.fromstring(formula).itertext())
        assert not re.search(r"[\\&${]", text), formula
    assert "$" not in re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", prose, flags=re.DOTALL)


def test_a_formula_that_cannot_be_read_stays_readable():
    assert mathml(r"\left( 1<2") == r"<code>\left( 1&lt;2</code>"
