"""Writes at the end of each section of a unit, folded, the claims of `docs/CLAIMS.md` that the section settles.

.venv/bin/python tools/insert_claims.py

The table is the source: a row's last column names the sections that measure its claim, and the last of them settles it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
HEADING = re.compile(r"^## (.*)\n?", re.MULTILINE)
SUMMARY = "Claims on trial in this section: which are true?"
FOLDED = re.compile(rf"<details>\n<summary>{re.escape(SUMMARY)}</summary>\n.*?</details>\n*", re.DOTALL)
END = "The numbers and the reasons are in `docs/CLAIMS.md` of the course."
#: Name in a row, other than a section's number -> first word of the heading; the opening has none.
NAMED = {"opening": "", "check": "Check", "references": "References", "optional part": "Optional"}


@dataclass(frozen=True)
class Claim:
    """A row of the table. places: (number of a unit, number or first word of a section's heading)."""

    words: str
    verdict: str
    why: str
    where: str
    places: tuple[tuple[int, str], ...]


def read_claims(root: Path = ROOT) -> list[Claim]:
    lines = (root / "docs" / "CLAIMS.md").read_text(encoding="utf-8").splitlines()
    rows = [re.split(r" \| ", line.strip("| ")) for line in lines if line.startswith("| ")]
    return [Claim(*row, tuple(_places(row[-1]))) for row in rows if row[0] != "the claim"]


def _places(where: str) -> Iterator[tuple[int, str]]:
    """Yield the sections that a cell names. A unit without a section is only a pointer and yields none."""
    for part in where.split(";"):
        unit = re.match(r"\s*unit (\d+), (.*)", part)
        if not unit:
            continue
        for numbers in re.findall(r"sections? (\d+(?:(?:, | and | to )\d+)*)", unit[2]):
            spread = re.sub(r"(\d+) to (\d+)", lambda ends: _span(int(ends[1]), int(ends[2])), numbers)
            yield from ((int(unit[1]), number) for number in re.findall(r"\d+", spread))
        yield from ((int(unit[1]), heading) for name, heading in NAMED.items() if name in unit[2])


def _span(first: int, last: int) -> str:
    return " ".join(map(str, range(first, last + 1)))


def key_of(heading: str) -> str:
    """Return the number of a section, or the first word of its heading."""
    return re.split(r"\W", heading, maxsplit=1)[0]


def section_of(claim: Claim, unit: int) -> str:
    """Return the last section of a unit that a claim names, which settles it; "" if there is none."""
    own = [key for number, key in claim.places if number == unit and (key.isdigit() or key == NAMED["optional part"])]
    return own[-1] if own else ""


def section_end(claims: list[Claim], unit: int, key: str) -> str:
    """Return the text for the end of a section; "" if it settles no claim."""
    decided = [claim for claim in claims if section_of(claim, unit) == key != ""]
    lines = [f"- {claim.words.rstrip('.')}: {claim.verdict}." for claim in decided]
    parts = ["<details>", f"<summary>{SUMMARY}</summary>", "", *lines, "", END, "", "</details>"]
    return "\n".join(parts) if lines else ""


def is_end(cell: NotebookNode) -> bool:
    """Return whether a cell holds only the claims of a section."""
    return cell.cell_type == "markdown" and FOLDED.fullmatch(cell.source) is not None


def end_sections(notebook: NotebookNode, unit: int, claims: list[Claim]) -> None:
    """Write each section's claims before the next heading, in a new cell if that heading begins a cell."""
    cells, key = [], ""
    for cell in notebook.cells:
        if is_end(cell):
            continue
        if cell.cell_type == "markdown":
            cell.source, parts = FOLDED.sub("", cell.source), []
            for part in re.split(r"(?=^## )", cell.source, flags=re.MULTILINE):
                heading = HEADING.match(part)
                end = section_end(claims, unit, key) if heading else ""
                if end and "".join(parts).strip():
                    parts.append(f"{end}\n\n")
                elif end:
                    cells.append(nbformat.v4.new_markdown_cell(end, id=f"on-trial-{key.lower()}"))
                key = key_of(heading[1]) if heading else key
                parts.append(part)
            cell.source = "".join(parts)
        cells.append(cell)
    notebook.cells = cells


def main() -> None:
    claims = read_claims()
    for path in sorted((ROOT / "solutions").glob("*/*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        end_sections(notebook, int(path.stem[:2]), claims)
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
