"""The static site: it gives no answer away, its links lead somewhere, and its pages are well-formed for everybody.

No network and no npm are needed here: formulas are left as TeX. tests/browser looks at the finished site.
"""

from __future__ import annotations

import functools
import html
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

import website
from autograder.exercises import exercises, unit_names
from prose import plain_formula

ROOT = Path(__file__).parents[1]
BODY = re.compile(r"### BEGIN (SOLUTION|HIDDEN TESTS)\n(.*?)### END \1", re.DOTALL)


def as_tex(formulas):
    return [f"<i>{html.escape(tex)}</i>" for tex, _, _ in formulas]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("site")
    website.build(target, as_tex)
    return target


class Elements(HTMLParser):
    """All opening tags of a page with their attributes, and all its text."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)

    def all(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.tags if attribute in attributes]


def sources(folder: str, unit: str) -> list[str]:
    return [cell.source for cell in nbformat.read(ROOT / folder / unit / f"{unit}.ipynb", as_version=4).cells]


@functools.cache
def secret_lines(unit: str) -> frozenset[str]:
    """The lines of the solutions and hidden tests that stand in no notebook of a student."""
    shown = "\n".join(source for other in unit_names() for source in sources("notebooks", other))
    bodies = [body for source in sources("solutions", unit) for _, body in BODY.findall(source)]
    lines = {line.strip() for body in bodies for line in body.splitlines()}
    return frozenset(line for line in lines if len(line) >= 12 and line not in shown)


def leaks(text: str, unit: str) -> list[str]:
    return sorted(line for line in secret_lines(unit) if line in text)


def test_no_page_and_no_file_of_the_site_gives_an_answer_away(site):
    for unit in unit_names():
        assert secret_lines(unit), f"{unit}: the solutions hold no line to look for"
    for path in site.rglob("*"):
        if path.suffix not in (".html", ".js", ".ipynb"):
            continue
        text = "".join(Elements(path).text) if path.suffix == ".html" else path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)
        for trace in ("### BEGIN", "### END", "judge_here", "HIDDEN TESTS"):
            assert trace not in text, f"{path.name}: {trace}"
        for unit in unit_names():
            assert leaks(text, unit) == [], path.name


def test_a_leak_would_be_seen():
    for unit in unit_names():
        text = "\n".join(sources("solutions", unit))
        assert len(leaks(text, unit)) == len(secret_lines(unit))


@pytest.mark.parametrize("unit", unit_names())
def test_what_an_answer_cell_or_a_test_cell_printed_is_left_out(site, unit):
    text = "".join(Elements(site / f"{unit}.html").text)
    for name in exercises(unit):
        assert f"\n{name}: all visible tests passed." not in text
        assert text.count(f"def {name}(") == 1
    assert text.count("raise NotImplementedError(") >= len(exercises(unit))


def test_every_link_and_every_file_that_a_page_asks_for_is_there(site):
    pages = {path.name: Elements(path) for path in site.glob("*.html")}
    anchors = {name: set(page.all("id")) for name, page in pages.items()}
    later = {"katex/katex.css", "minisearch.js"}  # they come from npm
    for name, page in pages.items():
        ids = page.all("id")
        assert len(ids) == len(set(ids)), f"{name}: two elements share an id"
        for target in page.all("href") + page.all("src") + page.all("action"):
            if re.match(r"(https?|data):", target) or target in later:
                continue
            path, _, anchor = target.partition("#")
            assert not path or (site / path).is_file(), f"{name}: {target} is not there"
            assert not anchor or anchor in anchors[path or name], f"{name}: {target} leads to no such place"


def test_every_page_has_a_language_a_title_one_main_part_and_headings_in_order(site):
    for path in site.glob("*.html"):
        page = Elements(path)
        assert ("html", {"lang": "en"}) in page.tags, path.name
        names = [tag for tag, _ in page.tags]
        for once in ("title", "main", "header", "footer", "h1"):
            assert names.count(once) == 1, f"{path.name}: {names.count(once)} times <{once}>"
        levels = [int(name[1]) for name in names if re.fullmatch("h[1-6]", name)]
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), path.name
        for tag, attributes in page.tags:
            assert tag != "img" or len(attributes["alt"]) >= 20, path.name
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"⟦|\$[^$\n]{1,80}\$", text), f"{path.name}: a formula was not set"


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"(B, h, n, d)", "(B, h, n, d)"),
        (r"\sqrt{d_{head}} = 8", "√d_head = 8"),
        (r"\sqrt d", "√d"),
        (r"W_V^{(r)}", "W_V^(r)"),
        (r"e^{-\infty} = 0", "e^(-∞) = 0"),
        (r"d_\text{model} \times \tfrac12", "d_model × 1/2"),
        (r"q_i^2 \cdot \sigma_q^2", "q_i^2 · σ_q^2"),
        (r"\ln 3 \approx 1.1", "ln 3 ≈ 1.1"),
        (r"\lVert J \rVert", "…"),
        (r"\begin{pmatrix} 0 & 5 \\\\ 2 & 9 \end{pmatrix}", "…"),
        ("x" * 60, "…"),
    ],
)
def test_a_short_formula_can_be_read_in_what_the_search_shows(tex, text):
    assert plain_formula(tex) == text


def test_the_search_shows_few_formulas_as_dots():
    unit = website.read_unit("02_scaled_scores")
    texts = " ".join(section["text"] for section in unit.sections)
    assert "√d_k" in texts and texts.count(" … ") < len(unit.page.formulas) / 8


def test_a_unit_without_sections_has_no_list_of_them(tmp_path, monkeypatch):
    read_unit = website.read_unit

    def read_flat(name, root):
        unit = read_unit(name, root)
        unit.page.headings = [heading for heading in unit.page.headings if heading.level == 1]
        return unit

    monkeypatch.setattr(website, "read_unit", read_flat)
    website.build(tmp_path, as_tex)
    assert 'class="label">On this page' not in (tmp_path / "03_masking.html").read_text(encoding="utf-8")


def test_the_map_names_every_unit_and_every_function(site):
    links = Elements(site / "index.html").all("href")
    for unit in unit_names():
        assert f"{unit}.html" in links
        for name in exercises(unit):
            assert f"{unit}.html#exercise-{name}" in links


def test_a_link_that_leads_nowhere_is_named():
    link = website.link_of("01_projections")
    assert link("../02_scaled_scores/02_scaled_scores.ipynb#top", "intro") == "02_scaled_scores.html#top"
    assert link("https://example.org", "intro") == "https://example.org"
    with pytest.raises(website.SiteFailed, match=r"01_projections, cell intro: .*figure\.svg"):
        link("figure.svg", "intro")


def test_without_npm_there_is_one_line_with_the_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(website, "MODULES", tmp_path)
    monkeypatch.setattr(website.shutil, "which", lambda name: None)
    assert website.main([str(tmp_path / "site")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "apt-get install nodejs npm" in said[0]
    assert not (tmp_path / "site").exists()


def test_without_a_network_there_is_one_line_with_the_remedy(tmp_path, monkeypatch, capsys):
    def fail(command, **options):
        return website.subprocess.CompletedProcess(command, 1, "", "npm error code ENOTFOUND\nnpm error network")

    monkeypatch.setattr(website, "MODULES", tmp_path)
    monkeypatch.setattr(website.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(website.subprocess, "run", fail)
    assert website.main([str(tmp_path / "site")]) == 2
    assert "ENOTFOUND" in capsys.readouterr().err.splitlines()[-1]


def test_only_a_site_of_ours_is_replaced(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(website, "install_packages", lambda: None)
    monkeypatch.setattr(website, "copy_packages", lambda target: None)
    monkeypatch.setattr(website.build, "__defaults__", (as_tex, ROOT))
    precious, aside, target = tmp_path / "mine" / "thesis.txt", tmp_path / "site.part" / "notes.txt", tmp_path / "site"
    for path in (precious, aside):
        path.parent.mkdir()
        path.write_text("years of work")
    for folder in (precious.parent, precious):
        assert website.main([str(folder)]) == 2
        assert capsys.readouterr().err == f"site: {folder} is no site of ours; name a new folder\n"
    target.mkdir()
    assert website.main([str(target)]) == 0, "an empty folder"
    (target / "old.html").touch()
    assert website.main([str(target)]) == 0, "a site that was made before"
    assert (target / "index.html").is_file() and not (target / "old.html").exists()
    assert precious.read_text() == aside.read_text() == "years of work"
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "site", "site.part"}
