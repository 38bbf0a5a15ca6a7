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

import build_site
from attention_figures import appearance
from autograder.exercises import exercises, unit_names
from textbook import npm_packages
from textbook.predictions import REVEALED

ROOT = Path(__file__).parents[2]
BODY = re.compile(r"### BEGIN (SOLUTION|HIDDEN TESTS)\n(.*?)### END \1", re.DOTALL)


def as_tex(formulas):
    return [f"<i>{html.escape(tex)}</i>" for tex, _, _ in formulas]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("site")
    build_site.build(target, as_tex)
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


@functools.cache
def read_page(page: Path) -> Elements:
    return Elements(page)


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


@pytest.mark.nightly
def test_no_page_and_no_file_of_the_site_gives_an_answer_away(site):
    for unit in unit_names():
        assert secret_lines(unit), f"{unit}: the solutions hold no line to look for"
    for path in site.rglob("*"):
        if path.suffix not in (".html", ".js", ".ipynb"):
            continue
        text = "".join(read_page(path).text) if path.suffix == ".html" else path.read_text(encoding="utf-8")
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
    text = "".join(read_page(site / f"{unit}.html").text)
    for name in exercises(unit):
        assert f"\n{name}: all visible tests passed." not in text
        assert text.count(f"def {name}(") == 1
    assert text.count("raise NotImplementedError(") >= len(exercises(unit))


def test_every_link_and_every_file_that_a_page_asks_for_is_there(site):
    pages = {path.name: read_page(path) for path in site.glob("*.html")}
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
        page = read_page(path)
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


@pytest.mark.nightly
def test_a_unit_without_sections_has_no_list_of_them(tmp_path, monkeypatch):
    read_unit = build_site.read_unit

    def read_flat(name, root):
        unit = read_unit(name, root)
        unit.page.headings = [heading for heading in unit.page.headings if heading.level == 1]
        return unit

    monkeypatch.setattr(build_site, "read_unit", read_flat)
    build_site.build(tmp_path, as_tex)
    assert 'class="label">On this page' not in (tmp_path / "03_masking.html").read_text(encoding="utf-8")


def test_the_map_names_every_unit_and_every_function(site):
    links = read_page(site / "index.html").all("href")
    for unit in unit_names():
        assert f"{unit}.html" in links
        for name in exercises(unit):
            assert f"{unit}.html#exercise-{name}" in links


def test_without_npm_there_is_one_line_with_the_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(npm_packages, "MODULES", tmp_path)
    monkeypatch.setattr(npm_packages.shutil, "which", lambda name: None)
    assert build_site.main([str(tmp_path / "site")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "apt-get install nodejs npm" in said[0]
    assert not (tmp_path / "site").exists()


def test_without_a_network_there_is_one_line_with_the_remedy(tmp_path, monkeypatch, capsys):
    def fail(command, **options):
        return npm_packages.subprocess.CompletedProcess(command, 1, "", "npm error code ENOTFOUND\nnpm error network")

    monkeypatch.setattr(npm_packages, "MODULES", tmp_path)
    monkeypatch.setattr(npm_packages.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(npm_packages.subprocess, "run", fail)
    assert build_site.main([str(tmp_path / "site")]) == 2
    assert "ENOTFOUND" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.nightly
def test_only_a_site_of_ours_is_replaced(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build_site, "install_packages", lambda: None)
    monkeypatch.setattr(build_site, "copy_packages", lambda target: None)
    monkeypatch.setattr(build_site.build, "__defaults__", (as_tex, ROOT))
    precious, aside, target = tmp_path / "mine" / "thesis.txt", tmp_path / "site.part" / "notes.txt", tmp_path / "site"
    for path in (precious, aside):
        path.parent.mkdir()
        path.write_text("years of work")
    for folder in (precious.parent, precious):
        assert build_site.main([str(folder)]) == 2
        assert capsys.readouterr().err == f"site: {folder} is no site of ours; name a new folder\n"
    target.mkdir()
    assert build_site.main([str(target)]) == 0, "an empty folder"
    (target / "old.html").touch()
    assert build_site.main([str(target)]) == 0, "a site that was made before"
    assert (target / "index.html").is_file() and not (target / "old.html").exists()
    assert precious.read_text() == aside.read_text() == "years of work"
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "site", "site.part"}


def test_a_page_allows_no_script_but_files_beside_it(site):
    for path in site.glob("*.html"):
        page, text = read_page(path), path.read_text(encoding="utf-8")
        policies = [each["content"] for _, each in page.tags if each.get("http-equiv") == "Content-Security-Policy"]
        assert len(policies) == 1, path.name
        policy = dict(part.split(" ", 1) for part in policies[0].split("; "))
        assert policy["default-src"] == "'none'" and policy["script-src"] == policy["font-src"] == "'self'"
        assert text.index("Content-Security-Policy") < min(text.index("<link"), text.index("<script"))
        for tag, attributes in page.tags:
            assert tag != "script" or "src" in attributes or attributes.get("type") == "application/json", path.name
            assert not any(name.startswith("on") for name in attributes), path.name
            outside = attributes.get("src") or (attributes.get("href") if tag == "link" else "") or ""
            assert not re.match(r"\w+:", outside), f"{path.name}: {outside}"


@pytest.mark.parametrize("unit", unit_names())
def test_each_exercise_is_a_section_with_its_answer_and_the_way_into_jupyterlab(site, unit):
    parts = (site / f"{unit}.html").read_text(encoding="utf-8").split('<section class="exercise" id="exercise-')[1:]
    assert [part.partition('"')[0] for part in parts] == list(exercises(unit))
    for part, name in zip(parts, exercises(unit), strict=True):
        section = part.partition("</section>")[0]
        assert f'href="http://localhost:8888/lab/tree/{unit}/{unit}.ipynb"' in section
        assert f"<code>{name}</code>" in section.partition("</p>")[0]
        assert section.count('class="answer"') == 1 and 'href="#in-jupyterlab"' in section


@pytest.mark.parametrize("unit", unit_names())
def test_each_prediction_can_be_made_and_its_measurement_is_folded(site, unit):
    page = read_page(site / f"{unit}.html")
    boxes = [attributes for _, attributes in page.tags if attributes.get("class") == "prediction"]
    folds = {each["id"] for _, each in page.tags if each.get("class") == "fold evidence"}
    cells = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4).cells
    sources = [cell.source for cell in cells if "predict" in cell.metadata.get("tags", [])]
    truths = [re.search(r'predict\(\s*"([\d.]+)",\s*"?([^",)]+)', source).groups() for source in sources]
    assert boxes and [box["data-number"] for box in boxes] == [number for number, _ in truths]
    for box, (number, truth) in zip(boxes, truths, strict=True):
        assert not truth.isalpha() or box["data-truth"] == truth, number
        assert box["data-place"] in folds, number
    shown = "".join(page.text)
    assert not re.search(r"^predict\(", shown, re.MULTILINE), "a prediction is left as code"
    assert not re.search(r"\d\.\d: (you predict|measured .*you predict)", shown), "a guess of the author's"


def test_predictions_are_no_code_and_nothing_measured_is_lost(site):
    for unit in unit_names():
        text = "".join(read_page(site / f"{unit}.html").text)
        for cell in nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4).cells:
            for item in cell.get("outputs", []):
                for line in REVEALED.finditer(item.get("text", "")):
                    assert f"{line['number']}: measured {line['measured']}{line['how'] or ''}." in text


def test_the_stories_of_the_front_page_say_what_was_measured(site):
    said = " ".join("".join(read_page(site / "index.html").text).split())
    executed = {
        unit: "\n".join(
            item.get("text", "")
            for cell in nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4).cells
            for item in cell.get("outputs", [])
        )
        for unit in ("06_cross_attention", "08_induction_heads")
    }
    assert (
        re.search(r"exact match +1\.00 +1\.00\n", executed["06_cross_attention"]) and "every new sentence right" in said
    )
    verbs = re.search(r"verb hidden: verbs right +0\.00 +0\.(\d\d)\n", executed["06_cross_attention"])
    assert f"{verbs[1]} of 100 verbs" in said
    late = re.search(r"nine tenths of the fall from [\d.]+ come after step (\d+)", executed["08_induction_heads"])
    assert int(late[1]) > 100 and "more than a hundred training steps" in said


def test_colours_and_fonts_are_those_of_the_course(site):
    style = (site / "style.css").read_text(encoding="utf-8")
    assert style.startswith(appearance.css())
    rules = style.removeprefix(appearance.css()).partition("\n")[2]
    assert set(re.findall(r"var\(--([\w-]+)\)", rules)) <= {*appearance.colours(), "font", "font-of-code"}
    assert re.findall(r"#[0-9a-f]{3,6}\b", rules) == ["#fff"], "white behind figures, and no other colour"
    assert "--" not in re.sub(r"var\(--[\w-]+\)", "", rules), "a variable of its own"


def weight(site: Path, name: str) -> int:
    """Bytes of a page and of all that it loads: pictures, scripts, styles, and what these ask for."""
    page = read_page(site / name)
    asked = {target for tag, each in page.tags if tag in ("script", "img") and (target := each.get("src"))}
    asked |= {each["href"] for tag, each in page.tags if tag == "link"}
    places = [site / name, *(site / target for target in asked - {"katex/katex.css"})]
    fonts = 400_000 if "katex/katex.css" in asked else 0  # KaTeX's style and all of its fonts come from npm
    return sum(place.stat().st_size for place in places) + fonts


def test_the_first_page_weighs_under_450_kb_and_a_units_page_under_3_mb(site):
    assert weight(site, "index.html") < 450_000
    for unit in unit_names():
        assert weight(site, f"{unit}.html") < 3_000_000, unit
