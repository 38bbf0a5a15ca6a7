"""Makes the course into a static site in `site/`, which needs no network to be read.

    .venv/bin/python tools/website.py [FOLDER]

The text and the code are those of `notebooks/`, the student's version. What the examples print and draw comes from
`solutions/`, cell by cell; of an answer cell and of a test cell nothing is taken from there. Formulas are set by KaTeX
when the site is made, and the search is MiniSearch: both come from npm once, as `tools/web/package-lock.json` says.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
import nbformat

from autograder.exercises import unit_names
from autograder.handout.course_map import NoMap, unit_of_map
from prose import Page, code_block, fill_in, folded, markdown, output, words

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "tools" / "web"
MODULES = WEB / "node_modules"
EXERCISE_HTML = re.compile(r"<p>(<strong>Exercise [\d.]+ · <code>(\w+)</code></strong> · )([●○]+)")
#: Sets formulas: (TeX, whether it stands on a line of its own, cell) -> HTML.
Setter = Callable[[Sequence[tuple[str, bool, str]]], list[str]]


class SiteFailed(Exception):
    """The site cannot be made: one line with the remedy."""


@dataclass
class Unit:
    """What the map of the course says about a unit.

    exercises: the functions as (number, name, stars, minutes), in the order of the notebook.
    """

    name: str
    title: str
    minutes: int
    builds_on: list[str]
    exercises: list[tuple[str, str, str, int]]
    page: Page
    content: str = ""
    sections: list[dict[str, str]] = field(default_factory=list)

    @property
    def number(self) -> str:
        return self.name[:2].lstrip("0")


#: What a measurement says of the guess before it: a reader of the site has made none.
GUESSED = re.compile(r"^(.*?\d+\.\d+: measured .*?), (?:as you predicted|and you predicted [\d.e+-]*\d)", re.MULTILINE)


def read_unit(name: str, root: Path = ROOT) -> Unit:
    """Read one unit and render everything but its formulas. Raises SiteFailed."""
    release, solution = (
        nbformat.read(root / folder / name / f"{name}.ipynb", as_version=4) for folder in ("notebooks", "solutions")
    )
    executed = {cell.id: cell for cell in solution.cells}
    try:
        place = unit_of_map(name, release)
    except NoMap as error:
        raise SiteFailed(str(error)) from None
    title = f"Unit {place.number} · {place.title}"
    found = [(entry.number, entry.function, entry.level, entry.minutes) for entry in place.places]
    page = Page(name, link_of(name))
    unit = Unit(name, title, place.minutes, list(place.builds_on), found, page)
    unit.content = "".join(render(cell, executed.get(cell.id), page) for cell in release.cells)
    unit.sections = sections(unit)
    return unit


def link_of(name: str) -> Callable[[str, str], str]:
    """Links between notebooks become links between pages; any other must be a whole address."""

    def link(target: str, cell: str) -> str:
        path, hash_, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return target
        stem = path.rpartition("/")[2].removesuffix(".ipynb")
        if path.endswith(".ipynb"):
            return f"{stem if stem in unit_names() else 'index'}.html{hash_}{anchor}"
        raise SiteFailed(f"{name}, cell {cell}: the site has nothing for the link {target}")

    return link


def render(cell: nbformat.NotebookNode, executed: nbformat.NotebookNode | None, page: Page) -> str:
    """One cell of the release. `executed` is the same cell of the solutions: only its outputs are ever looked at."""
    page.cell = cell.id
    if cell.get("attachments") and executed is not None:  # the picture that opens a unit, as it was drawn
        return "".join(output(item, page) for item in executed.outputs)
    if cell.cell_type == "markdown":
        return EXERCISE_HTML.sub(exercise_line, markdown(cell.source, page))
    marks = cell.metadata.get("nbgrader", {})
    code = code_block(cell.source)
    if marks.get("solution"):
        return f'<div class="answer"><p class="label">Your answer goes here</p>\n{code}</div>\n'
    if marks:
        return folded(f"The test of <code>{marks['grade_id'].removeprefix('test_')}</code>", code)
    outputs = [] if executed is None or executed.source != cell.source else executed.outputs
    shown = GUESSED.sub(r"\1", "".join(output(item, page) for item in outputs))
    if "<figure" in shown:
        code = folded("The code of this figure", code)
    elif "given" in cell.metadata.get("tags", []) and re.match(r"import |from ", cell.source):
        code = folded("What this unit imports", code)
    return code + shown


def exercise_line(found: re.Match[str]) -> str:
    """The first line of an exercise gets a name to link to, and words for its stars."""
    words, name, stars = found.groups()
    level = f'<span role="img" aria-label="level {stars.count("●")} of {len(stars)}">{stars}</span>'
    return f'<p class="exercise" id="exercise-{name}">{words}{level}'


def sections(unit: Unit) -> list[dict[str, str]]:
    """The unit cut at its headings, for the search."""
    parts = re.split(r'(?=<h[1-6] id=")', unit.content)[1:]
    found = []
    for heading, part in zip(unit.page.headings, parts, strict=True):
        body = part.partition(f"</h{heading.level}>")[2]
        names = " ".join(re.findall(r'id="exercise-(\w+)"', body))
        found.append(
            {
                "id": f"{unit.name}.html#{heading.anchor}",
                "title": words(heading.text, unit.page),
                "unit": unit.title if heading.level > 1 else "",
                "text": f"{words(body, unit.page)} {names}".strip(),
            }
        )
    return found


def set_formulas(formulas: Sequence[tuple[str, bool, str]]) -> list[str]:
    """KaTeX's HTML and MathML of each formula. Raises SiteFailed for one that KaTeX cannot set."""
    questions = json.dumps([{"tex": tex, "display": display} for tex, display, _ in formulas])
    done = subprocess.run(
        ["node", WEB / "formulas.mjs"], input=questions, capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode != 0:
        raise SiteFailed(f"node cannot set the formulas: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
    answers = json.loads(done.stdout)
    for (tex, _, cell), answer in zip(formulas, answers, strict=True):
        if "error" in answer:
            raise SiteFailed(f"cell {cell}: KaTeX cannot set ${tex}$: {answer['error']}")
    return [answer["html"] for answer in answers]


def install_packages() -> None:
    """Take the pinned packages from npm, unless they are there. Raises SiteFailed."""
    lock, stamp = WEB / "package-lock.json", MODULES / ".installed-from.json"
    if stamp.is_file() and stamp.read_bytes() == lock.read_bytes():
        return
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise SiteFailed("this needs Node.js 18 or newer with npm (Debian, Ubuntu: sudo apt-get install nodejs npm)")
    print("site: taking KaTeX, MiniSearch and axe-core from npm; once only", file=sys.stderr, flush=True)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1"]
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        reason = errors[0].strip() if errors else f"exit status {done.returncode}"
        raise SiteFailed(f"npm cannot be reached or failed ({reason}); with a network, run `make site` again")
    stamp.write_bytes(lock.read_bytes())


def build(target: Path, setter: Setter = set_formulas, root: Path = ROOT) -> None:
    """Write the pages to the empty folder `target`."""
    units = [read_unit(name, root) for name in unit_names()]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(WEB), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )

    def write(template: str, name: str, **values: object) -> None:
        text = environment.get_template(template).render(units=units, **values)
        (target / name).write_text(text, encoding="utf-8")

    for position, unit in enumerate(units):
        neighbours = {"before": units[position - 1] if position else None, "after": (*units, None)[position + 1]}
        content = fill_in(unit.content, setter(unit.page.formulas))
        write("unit.html", f"{unit.name}.html", unit=unit, content=content, **neighbours)
        for figure, data in unit.page.figures.items():
            place = target / "figures" / unit.name / figure
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        place = target / "notebooks" / unit.name / f"{unit.name}.ipynb"
        place.parent.mkdir(parents=True)
        shutil.copyfile(root / "notebooks" / unit.name / f"{unit.name}.ipynb", place)
    write("index.html", "index.html")
    write("search.html", "search.html")
    documents = json.dumps([section for unit in units for section in unit.sections], ensure_ascii=False)
    (target / "sections.js").write_text(f"const SECTIONS = {documents};\n", encoding="utf-8")
    for name in ("style.css", "page.js", "search.js"):
        shutil.copyfile(WEB / name, target / name)


def copy_packages(target: Path) -> None:
    """KaTeX's style and fonts, and the search."""
    (target / "katex" / "fonts").mkdir(parents=True)
    style = (MODULES / "katex" / "dist" / "katex.min.css").read_text(encoding="utf-8")
    style = re.sub(r',url\([^)]+\.(woff|ttf)\) format\("[a-z]+"\)', "", style)  # every browser of today reads woff2
    (target / "katex" / "katex.css").write_text(style, encoding="utf-8")
    for font in (MODULES / "katex" / "dist" / "fonts").glob("*.woff2"):
        shutil.copyfile(font, target / "katex" / "fonts" / font.name)
    shutil.copyfile(MODULES / "minisearch" / "dist" / "umd" / "index.js", target / "minisearch.js")


def check_target(target: Path) -> None:
    """Raises SiteFailed for a folder that holds something else: making the site replaces what is there."""
    ours = all((target / name).is_file() for name in ("index.html", "search.html", "sections.js"))
    if target.exists() and not ours and not (target.is_dir() and not any(target.iterdir())):
        raise SiteFailed(f"{target} is no site of ours; name a new folder")


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]).resolve() if arguments else ROOT / "site"
    try:
        check_target(target)
        install_packages()
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{target.name}.", suffix=".part", dir=target.parent) as folder:
            aside = Path(folder) / target.name
            aside.mkdir()
            build(aside)
            copy_packages(aside)
            shutil.rmtree(target, ignore_errors=True)
            aside.rename(target)
    except SiteFailed as error:
        print(f"site: {error}", file=sys.stderr)
        return 2
    print(f"site: open {target / 'index.html'} in a browser")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
