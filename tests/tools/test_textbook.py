"""The rooms of the site: formulas as text, links, live figures, and what the search knows."""

from __future__ import annotations

import re

import pytest
from test_website import as_tex

import build_site
from textbook import SiteFailed
from textbook.live_figures import copy_code, names_in, without_code
from textbook.prose import Page, output, plain_formula
from textbook.unit_pages import link_of, read_unit


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
    unit = read_unit("02_scaled_scores")
    texts = " ".join(section["text"] for section in unit.sections)
    assert "√d_k" in texts and texts.count(" … ") < len(unit.page.formulas) / 8


def test_a_link_that_leads_nowhere_is_named():
    link = link_of("01_projections")
    assert link("../02_scaled_scores/02_scaled_scores.ipynb#top", "intro") == "02_scaled_scores.html#top"
    assert link("https://example.org", "intro") == "https://example.org"
    with pytest.raises(SiteFailed, match=r"01_projections, cell intro: .*figure\.svg"):
        link("figure.svg", "intro")


LIVELY = (
    '<style>.x {}</style><figure class="live wide" data-live="made-up"><img alt="A bar, drawn as high as it is" '
    'src="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=">'
    '<script type="application/json">{"bars": [1, 2]}</script><figcaption>Two bars.</figcaption></figure>'
    "<script>alert('<figure>')</script><SCRIPT src='https://example.org/kit.js'></SCRIPT >"
)


def test_of_a_live_figure_the_page_keeps_data_picture_and_caption_and_no_code():
    page = Page("01_projections", link_of("01_projections"), cell="lively")
    shown = output({"output_type": "display_data", "data": {"text/html": LIVELY}}, page)
    assert list(page.live) == ["made-up"] and list(page.pictures) == ["lively.webp"]
    assert '<script type="application/json">{"bars": [1, 2]}</script>' in shown and "Two bars." in shown
    assert shown.lower().count("<script") == 1 and "<style" not in shown and "base64" not in shown
    assert 'src="figures/01_projections/lively.webp"' in shown and 'width="1"' in shown
    assert names_in('<figure class="lively">') == [] and without_code("<p>text</p>") == "<p>text</p>"
    with pytest.raises(SiteFailed, match="no name"):
        names_in('<figure class="live" data-live="../x">')


@pytest.mark.nightly
def test_a_live_figure_opens_the_site_and_its_scripts_are_linked_once_a_page(tmp_path):
    build_site.build(tmp_path, as_tex)
    copied = {path.name for path in (tmp_path / "live").iterdir()}
    for page in sorted(tmp_path.glob("*.html")):
        text = page.read_text(encoding="utf-8")
        wanted = {f"live/{name}.js" for name in names_in(text)}
        assert set(re.findall(r'src="(live/[a-z_-]+\.js)" defer', text)) == wanted | (
            {"live/kit.js"} if wanted else set()
        )
        for linked in ("live/kit.css", "live/kit.js", *wanted):
            assert text.count(f'"{linked}"') == bool(wanted), f"{page.name}: {linked}"
        assert {place.removeprefix("live/") for place in wanted} <= copied
    assert names_in((tmp_path / "index.html").read_text(encoding="utf-8"))[0] == "model_heads"
    assert "--query:" in (tmp_path / "live" / "kit.css").read_text(encoding="utf-8")


def test_a_live_figure_without_its_script_is_one_line(tmp_path):
    for name in ("kit.js", "kit.css"):
        (tmp_path / name).write_text("")
    with pytest.raises(SiteFailed, match=r"gone\.js"):
        copy_code(["gone"], tmp_path, tmp_path / "live")


def test_without_live_figures_nothing_is_copied(tmp_path):
    copy_code([], tmp_path, tmp_path / "live")
    assert not (tmp_path / "live").exists()


def test_the_search_knows_each_exercise_by_itself():
    unit = read_unit("03_masking")
    found = {section["id"]: section for section in unit.sections}
    masks = found["03_masking.html#exercise-causal_mask"]
    assert masks["title"].endswith(" · causal_mask") and masks["text"].startswith("Write the mask for n tokens")
    assert all(section["text"] for name, section in found.items() if "#exercise-" in name)
