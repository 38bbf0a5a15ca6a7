"""The README's badges say what is so."""

from __future__ import annotations

from pathlib import Path

from badges import badges

ROOT = Path(__file__).resolve().parents[1]


def test_the_badges_are_true_and_the_readme_has_them():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, text in badges().items():
        path = ROOT / "docs" / "pictures" / name
        assert path.read_text(encoding="utf-8") == text, "run `.venv/bin/python tools/pictures.py badges`"
        assert f"docs/pictures/{name}" in readme
