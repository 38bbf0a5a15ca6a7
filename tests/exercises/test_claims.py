"""The table of claims and the units: a row's sections hold what it says, and a section names the rows that it measures."""

from __future__ import annotations

import copy
import functools
import html
import re
from collections.abc import Iterator

import nbformat
import pytest

from autograder.exercises import unit_names
from insert_claims import FOLDED, HEADING, ROOT, Claim, end_sections, key_of, read_claims, section_end, section_of

CLAIMS = read_claims()
UNITS = {int(name[:2]): name for name in unit_names()}
#: A number as prose, code and TeX write it: 12,288, 0.27, 3.5e-9.
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?![\d])")
ADDRESS = re.compile(r"arXiv:[\d.]+")
#: Who is cited, as in "(Vig et al. 2020)" and "Ioffe and Szegedy 2015".
CITED = re.compile(r"((?:[A-Z]\w+(?:, | and | et al\.? |,? ))+)(?:\()?(?:19|20)\d\d")
#: Words that say nothing of a subject.
COMMON = (
    "about after been before does each from have into more only other that than their them then there these they this "
    "what when where which with your"
)


def solution(unit: int):
    return nbformat.read(ROOT / "solutions" / UNITS[unit] / f"{UNITS[unit]}.ipynb", as_version=4)


def shown(cell) -> str:
    """What a reader of a code cell has before them: the code, what it printed, a figure's caption and description."""
    parts = [cell.source]
    for output in cell.outputs:
        text = re.sub(r"<script.*?</script>", " ", output.get("data", {}).get("text/html", ""), flags=re.DOTALL)
        parts += [output.get("text", ""), *re.findall(r'alt="([^"]*)"', text), re.sub(r"<[^>]*>", " ", text)]
    return html.unescape("\n".join(parts))


@functools.cache
def sections(unit: int) -> dict[str, str]:
    """The text of each section, by its number or the first word of its heading, without the claims at its end."""
    found, key = {"": ""}, ""
    for cell in solution(unit).cells:
        text = FOLDED.sub("", cell.source) if cell.cell_type == "markdown" else shown(cell)
        pieces = re.split(r"(?=^## )", text, flags=re.MULTILINE) if cell.cell_type == "markdown" else [text]
        for piece in pieces:
            heading = HEADING.match(piece) if cell.cell_type == "markdown" else None
            key = key_of(heading[1]) if heading else key
            found[key] = found.get(key, "") + f"\n{piece}"
    return found


def numbers(text: str) -> Iterator[list[tuple[float, float]]]:
    """Each number with half of its last digit's place; a percentage also as a fraction."""
    text = re.sub(r"(?<=\d)(?:\{,\}|\\,|[ \u00a0\u202f])(?=\d{3}\b)", ",", text.replace("−", "-"))
    for found in NUMBER.finditer(text):
        digits, _, exponent = found[0].replace(",", "").lstrip("-").partition("e")
        number, half = float(digits), 0.5 * 10.0 ** -len(digits.partition(".")[2])
        percent = re.match(r"\s?(?:\\?%|per ?cent)", text[found.end() :])
        scales = (1.0, 0.01) if percent else (10.0 ** int(exponent or 0),)
        yield [(number * scale, half * scale) for scale in scales]


def stands_in(forms: list[tuple[float, float]], given: list[float]) -> bool:
    return any(abs(other - number) <= half * 1.001 for number, half in forms for other in given)


def stems(text: str) -> set[str]:
    return {word[:4] for word in re.findall(r"[a-z]{4,}", text.lower()) if word not in COMMON.split()}


def place_of(claim: Claim) -> str:
    return f"docs/CLAIMS.md, {claim.words[:60]}…, {claim.where}"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: re.sub(r"\W+", "-", claim.words)[:40].strip("-"))
def test_the_sections_of_a_claim_are_there_and_hold_it(claim):
    assert any(section_of(claim, unit) for unit in UNITS), (
        f"{place_of(claim)}: name a section, as in `unit 2, section 3`"
    )
    for unit, key in claim.places:
        assert key in sections(unit), f"{place_of(claim)}: unit {unit} has no section {key}"
    text = "\n".join(sections(unit)[key] for unit, key in claim.places)
    given = [number for forms in numbers(text) for number, _ in forms]
    missing = [forms[0][0] for forms in numbers(ADDRESS.sub("", claim.why)) if not stands_in(forms, given)]
    assert not missing, f"{place_of(claim)}: {missing} stand in none of these sections"
    lacking = stems(f"{claim.words} {claim.why}") - stems(text)
    share = 1 - len(lacking) / len(stems(f"{claim.words} {claim.why}"))
    assert share > 0.6, f"{place_of(claim)}: these sections do not speak of {sorted(lacking)}"
    units = {unit for unit, _ in claim.places}
    texts = " ".join(" ".join(sections(unit).values()) for unit in units)
    cited = [name for names in CITED.findall(claim.why) for name in re.findall(r"[A-Z]\w+", names)]
    unknown = [name for name in cited if name not in texts]
    assert not unknown, f"{place_of(claim)}: the units cite no {unknown}"


@pytest.mark.parametrize("name", UNITS.values())
def test_a_section_ends_with_the_claims_on_which_it_decides(name):
    unit = int(name[:2])
    notebook = solution(unit)
    wanted = copy.deepcopy(notebook)
    end_sections(wanted, unit, CLAIMS)
    remedy = "run `.venv/bin/python tools/insert_claims.py`, then `.venv/bin/python -m autograder release`"
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in wanted.cells], remedy
    text = "\n".join(cell.source for cell in notebook.cells)
    for claim in CLAIMS:
        key = section_of(claim, unit)
        assert not key or claim.words.rstrip(".") in section_end(CLAIMS, unit, key) in text, (
            f"{place_of(claim)}: {remedy}"
        )
