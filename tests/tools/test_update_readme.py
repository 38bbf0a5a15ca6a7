"""The README's badges and its table of units say what the course has."""

from __future__ import annotations

from pathlib import Path

from update_readme import badges, with_table

ROOT = Path(__file__).resolve().parents[2]


def test_the_badges_are_true_and_the_readme_has_them():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, text in badges().items():
        path = ROOT / "docs" / "pictures" / name
        assert path.read_text(encoding="utf-8") == text, "run `.venv/bin/python tools/update_readme.py`"
        assert f"docs/pictures/{name}" in readme


def test_the_table_of_units_is_that_of_the_notebooks():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_table(readme) == readme, "run `.venv/bin/python tools/update_readme.py`"
    changed = readme.replace("from words to queries", "from words to nothing")
    assert changed != readme and with_table(changed) == readme
