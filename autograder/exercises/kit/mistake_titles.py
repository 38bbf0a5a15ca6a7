"""Gives mistakes titles for people to read, from `titles.toml` or made from the slug."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path


def title_of(slug: str, function: str, is_known: bool) -> str:
    """Return the title of a known mistake of an exercise, or of another fault that the grader found."""
    table = _titles()
    if is_known:
        return table["known"].get(f"{function}/{slug}") or table["known"].get(slug) or _made_of(slug)
    parts = [slug] if slug in table["found"] or slug.startswith("fails-") else slug.split("-and-")
    titles = list(dict.fromkeys(filter(None, map(_found, parts))))
    return "; ".join(titles) or _made_of(slug)


@cache
def _titles() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parents[1] / "titles.toml").read_text(encoding="utf-8"))


def _found(slug: str) -> str:
    """Return the title of the longest titled beginning of a slug; the rest of the slug says where the change is."""
    words = slug.removeprefix("own-").split("-")
    beginnings = ("-".join(words[:count]) for count in range(len(words), 0, -1))
    return _titles()["found"].get(slug) or next(filter(None, map(_titles()["found"].get, beginnings)), "")


def _made_of(slug: str) -> str:
    """Turn "softmax-over-queries" into "Softmax over queries"."""
    words = _titles()["words"]
    pattern = "|".join(rf"(?<![^-]){re.escape(word)}(?![^-])" for word in words)
    title = re.sub(pattern, lambda found: words[found[0]].replace("-", "\0"), slug).replace("-", " ").replace("\0", "-")
    return title if title[1:2].isupper() or title[1:2] == "_" else title[:1].upper() + title[1:]
