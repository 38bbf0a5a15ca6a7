"""Represents one small change of a program, applies it, and finds what a node's surroundings say about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

#: How likely a change is. FAR is tried only in the program itself, not in the functions that it calls.
LIKELY, POSSIBLE, ODD, FAR = range(4)
#: Whose program is changed: the model solution or the student's.
MODEL, STUDENT = range(2)
#: Functions whose arguments say where they start and end, or how often they repeat.
RANGES = ("range", "arange", "repeat", "repeat_interleave", "tile", "randint", "randperm")
MODULES = {"np", "torch", "math", "F", "special", "scipy", "linalg", "functional"}
#: The largest number of places at which the same change is made at once.
TOGETHER = 4

Parents = Mapping[ast.AST, ast.AST]


@dataclass(frozen=True, eq=False)
class Edit:
    """One change in one place.

    place: the number of the node `old`, which `new` replaces; None for `new` deletes it.
    kind, detail: keys of the tables in `change_descriptions`.
    ranks: how likely it is in the model solution and in a student's program; None where it is not tried.
    group: edits of one kind and group are also made together, because a student who counts from 1 does so everywhere.
    line: its line. fields: the pieces of the program that its words name.
    """

    place: int
    old: ast.AST
    new: ast.AST | None
    kind: str
    ranks: tuple[int | None, int | None] = (None, None)
    detail: str = ""
    group: str = ""
    line: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def keeps(self) -> bool:
        """Whether it wraps the old node and keeps it unchanged."""
        return self.new is not None and any(getattr(node, "number", -1) == self.place for node in ast.walk(self.new))


def edit(
    old: ast.AST,
    new: ast.AST | None,
    kind: str,
    ranks: tuple[int | None, int | None],
    detail: str = "",
    group: str = "",
    line: int = 0,
    **fields: Any,
) -> Edit:
    """Make an Edit of a numbered node."""
    return Edit(old.number, old, new, kind, ranks, detail or kind, group, line or getattr(old, "lineno", 0), fields)


@dataclass(frozen=True, eq=False)
class Program:
    """A numbered function that is to be changed.

    whose: MODEL or STUDENT. sizes: the names of the cases' sizes, which a mutant may confuse.
    numbers, arrays: a student's arguments that are plain numbers, and those that are arrays.
    """

    tree: ast.FunctionDef
    whose: int
    sizes: Sequence[str] = ()
    numbers: Sequence[str] = ()
    arrays: Sequence[str] = ()

    @cached_property
    def parents(self) -> Parents:
        """The parent of each node."""
        return {child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)}

    @cached_property
    def names(self) -> list[str]:
        """Its arguments and the names that it assigns."""
        return names_in(self.tree)


def numbered(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Return a copy of the function without annotations and docstring, with a number for every node."""
    tree = deepcopy(tree)
    tree.decorator_list, tree.returns = [], None
    for argument in (*tree.args.args, *tree.args.kwonlyargs):
        argument.annotation = None
    if tree.body and isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant):
        tree.body = tree.body[1:]
    nodes = list(ast.walk(tree))
    for number, node in enumerate(nodes):
        node.number = number
    for node in reversed(nodes):  # an integer, because it copies fast: its bits say which nodes are inside
        node.holds = 1 << node.number
        for child in ast.iter_child_nodes(node):
            node.holds |= child.holds
    return tree


def edited(tree: ast.AST, edits: Sequence[Edit]) -> Any:
    """Return a copy of a numbered tree with these edits; it shares what does not change.

    Outer edits come first. What they insert keeps the numbers of the nodes inside, so that inner edits still find
    these.
    """
    for one in sorted(edits, key=lambda one: (one.place, not one.keeps)):
        tree = _applied(tree, one.place, one.new)
    return tree


def replaced(whole: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    """Return a part of a numbered tree with one of its nodes replaced."""
    return _applied(whole, old.number, new)


def _applied(value: Any, place: int, new: ast.AST | None) -> Any:
    if isinstance(value, list):
        return [_applied(item, place, new) for item in value]
    if not isinstance(value, ast.AST) or not getattr(value, "holds", -1) >> place & 1:
        return value
    if getattr(value, "number", -1) == place:
        if new is None:
            return ast.copy_location(ast.Pass(), value) if isinstance(value, ast.stmt) else None
        return ast.fix_missing_locations(ast.copy_location(copy(new), value))
    changed = copy(value)
    for name, content in ast.iter_fields(value):
        if isinstance(content, (ast.AST, list)):
            setattr(changed, name, _applied(content, place, new))
    return changed


def together(edits: Sequence[Edit]) -> Iterator[tuple[Edit, ...]]:
    """Yield edits of one kind and group, made in a few places at once, none of which is inside another."""
    alike: dict[tuple[str, str], list[Edit]] = {}
    for one in edits:
        if one.group:
            alike.setdefault((one.kind, one.group), []).append(one)
    for some in alike.values():
        places = [one.place for one in some]
        nested = any(one is not other and one.old.holds >> other.place & 1 for one in some for other in some)
        if 2 <= len(set(places)) == len(places) <= TOGETHER and not nested:
            yield tuple(sorted(some, key=lambda one: one.line))


# ------------------------------------------------------------------------------------------------- pieces of programs


def called(node: ast.Call) -> tuple[str, bool]:
    """Return the name of the function that is called, and whether it is a method of a value."""
    if isinstance(node.func, ast.Name):
        return node.func.id, False
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value
        within = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        return node.func.attr, within not in MODULES
    return "", False


def constant(value: float | None) -> ast.expr:
    """Return a number as a node."""
    if isinstance(value, (int, float)) and value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def literal(node: ast.AST | None) -> Any:
    """Return the value of a literal, or None."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None


def whole(node: ast.AST | None) -> int | None:
    """Return the value of an integer literal, or None."""
    value = literal(node)
    return value if type(value) is int else None


def call(name: str, *arguments: ast.expr) -> ast.Call:
    """Return a call of a function by its name."""
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def attribute(value: ast.expr, name: str) -> ast.Attribute:
    """Return `value.name`."""
    return ast.Attribute(value, name, ast.Load())


def one_off(node: ast.expr) -> tuple[ast.expr, ast.expr]:
    """Return the expression minus 1 and plus 1."""
    if whole(node) is not None:
        return constant(whole(node) - 1), constant(whole(node) + 1)
    return ast.BinOp(node, ast.Sub(), ast.Constant(1)), ast.BinOp(node, ast.Add(), ast.Constant(1))


def turned(node: ast.expr) -> ast.expr:
    """Transpose a matrix, or undo its transposition."""
    return node.value if isinstance(node, ast.Attribute) and node.attr in ("T", "mT") else attribute(node, "mT")


def is_keyed(node: ast.AST | None) -> bool:
    """Return whether it is an entry of a dict, such as params["W_Q"]."""
    return (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    )


def names_in(tree: ast.FunctionDef) -> list[str]:
    """Return a function's arguments and the names that it assigns."""
    arguments = [argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)]
    stored = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return list(dict.fromkeys([*arguments, *stored]))


def bound_at(node: ast.AST, parents: Parents) -> set[str]:
    """Return the names with a value at a node: arguments, and what an earlier line or round of a loop binds."""
    within, loops = node, []
    while within in parents:
        within = parents[within]
        if isinstance(within, (ast.For, ast.While)):
            loops.append(within)
    names = {argument.arg for argument in (*within.args.args, *within.args.kwonlyargs)}
    for each in ast.walk(within):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            inside = any(loop.lineno <= each.lineno <= loop.end_lineno for loop in loops)
            if inside or each.lineno < node.lineno:
                names.add(each.id)
    return names


def assigned(tree: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield (name, value) for each binding of a name; the value is None unless it is a plain assignment."""
    plain: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            (target,), value = node.targets, node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                pairs = list(zip(target.elts, value.elts, strict=True))
            for one, given in pairs:
                if isinstance(one, ast.Name):
                    plain.add(one)
                    yield one.id, given
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in plain:
            yield node.id, None
        elif isinstance(node, ast.arg):
            yield node.arg, None


def only_compared(tree: ast.FunctionDef) -> set[ast.expr]:
    """Return values that are only compared, where another number may flip the decision by accident."""
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    sides = {each for test in tests for each in (test.left, *test.comparators)}
    loads = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    elsewhere = {node.id for node in loads if node not in sides}
    return sides | {value for name, value in assigned(tree) if value is not None and name not in elsewhere}
