"""Slips in what a program is given: an argument that is changed first, two arguments in each other's place."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from .edit import ODD, POSSIBLE, Edit, slug_of

#: What is done to an array first: (slug, words with its name, the line).
_TO_ARRAYS = (
    ("centred", "the mean of each row of `{0}` were subtracted first", "{0} = _centred({0})"),
    ("unit-length", "each row of `{0}` were brought to length 1 first", "{0} = _unit({0})"),
    ("absolute", "the signs of `{0}` were lost", "{0} = abs({0})"),
    ("first-for-all", "the first of `{0}` stood for all along its first axis", "{0} = _first_for_all({0}, 0)"),
    ("first-of-axis-1", "the first of `{0}` stood for all along its second axis", "{0} = _first_for_all({0}, 1)"),
    ("reversed", "`{0}` came in reverse order", "{0} = _turned_round({0})"),
    ("flipped", "True and False of `{0}` had changed places", "{0} = ~{0}"),
    ("cut", "`{0}` had been cut to whole numbers", "{0} = _cut({0})"),
)
_TO_ANY = (
    ("one-more", "`{0}` were larger by 1", "{0} = {0} + 1"),
    ("one-less", "`{0}` were smaller by 1", "{0} = {0} - 1"),
    ("doubled", "`{0}` were doubled", "{0} = 2 * {0}"),
    ("eightfold", "`{0}` were 8 times as large", "{0} = 8 * {0}"),
    ("unused", "`{0}` were 1", "{0} = 1"),
)
#: Words in the names of a dict's entries that are taken for each other.
_EXCHANGED = (("_1", "_2"), ("self_", "cross_"), ("W_Q", "W_K"), ("W_K", "W_V"), ("gamma", "beta"), ("gate", "up"))


def of_arguments(tree: ast.FunctionDef) -> Iterator[Edit]:
    """All slips of this kind, as lines that stand first in a numbered function."""
    names = [argument.arg for argument in tree.args.args]
    optional = set(names[len(names) - len(tree.args.defaults) :])
    used_as = {name: _uses(name, tree) for name in names}
    for name in names:
        uses = used_as[name]
        if "keyed" in uses:
            for one, other in _EXCHANGED:
                if _has(tree, one) and _has(tree, other):
                    words = f"the entries of `{name}` with {one.strip('_')} and {other.strip('_')} in their names "
                    line = f"{name} = _exchanged({name}, {one!r}, {other!r})"
                    yield _first(tree, line, slug_of("exchanged", one, other), words + "had changed places", POSSIBLE)
            continue
        if "called" in uses:
            continue
        for slug, words, line in _TO_ARRAYS if name not in optional or "array" in uses else ():
            yield _first(tree, line.format(name), slug_of(name, slug), words.format(name), POSSIBLE)
        for slug, words, line in _TO_ANY if "keyed" not in uses else ():
            yield _first(tree, line.format(name), slug_of(name, slug), words.format(name), ODD)
    for one, other in itertools.combinations(names, 2):
        if not {"keyed", "called"} & (used_as[one] | used_as[other]):
            words = f"`{one}` and `{other}` had changed places everywhere"
            yield _first(tree, f"{one}, {other} = {other}, {one}", slug_of("roles-of", one, other), words, POSSIBLE)


def _first(tree: ast.FunctionDef, line: str, slug: str, words: str, rank: int) -> Edit:
    name = line.partition(" ")[0].strip(",")
    optional = name in [argument.arg for argument in tree.args.args[len(tree.args.args) - len(tree.args.defaults) :]]
    guarded = f"if {name} is not None: {line}" if optional else line
    return Edit(tree.args.number, ast.parse(guarded).body[0], slug, words, rank)


def _uses(name: str, tree: ast.FunctionDef) -> set[str]:
    """How an argument is used: as a dict, as a function, as an array."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is(node.value, name):
            text = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            found.add("keyed" if text else "array")
        elif isinstance(node, ast.Call) and _is(node.func, name):
            found.add("called")
        elif isinstance(node, (ast.Attribute, ast.UnaryOp)) and _is(getattr(node, "value", None), name):
            found.add("array")
    return found


def _is(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _has(tree: ast.FunctionDef, word: str) -> bool:
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) and word in n.value for n in ast.walk(tree))
