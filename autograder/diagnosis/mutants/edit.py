"""One small change of a plain program, and how it is made.

The words of a change complete the sentence "It answers as if …". Where an expression is changed they name what stands
there now, so the sentence is true of every answer that agrees, whatever its code looks like.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any

#: A longer piece of a program says less than the name of what is done with it.
LONGEST = 44
_TURNED = re.compile(r"\.(?:T|mT)\b|\.(?:transpose|swapaxes)\((?:-1, -2|-2, -1)\)")
#: What counts: its arguments say where it begins and ends, or how often.
RANGES = ("range", "arange", "repeat", "repeat_interleave", "tile", "randint", "randperm")
MODULES = {"np", "torch", "math", "F", "special", "scipy", "linalg", "functional"}
#: From the likeliest to the least likely.
LIKELY, POSSIBLE, ODD = 0, 1, 2
#: Looked for in the program alone, and not in the functions that it calls.
FAR = 3


@dataclass(frozen=True)
class Edit:
    """One change at one place.

    place: the number of the node that `new` replaces; None for `new` deletes it.
    kind: changes of one kind are made together too, wherever they can be made: who counts from 1 does so everywhere.
    """

    place: int
    new: ast.AST | None
    slug: str
    words: str
    rank: int = LIKELY
    kind: str = ""

    @property
    def keeps(self) -> bool:
        """Does it put something around what stands there, and keep that as it is?"""
        return self.new is not None and any(getattr(node, "number", -1) == self.place for node in ast.walk(self.new))


def numbered(tree: ast.FunctionDef) -> ast.FunctionDef:
    """The function without annotations, defaults kept, with a number for every node."""
    tree = deepcopy(tree)
    tree.decorator_list, tree.returns = [], None
    for argument in (*tree.args.args, *tree.args.kwonlyargs):
        argument.annotation = None
    if tree.body and isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant):
        tree.body = tree.body[1:]
    nodes = list(ast.walk(tree))
    for number, node in enumerate(nodes):
        node.number = number
    for node in reversed(nodes):  # an integer whose bits say which nodes it holds: copied in no time
        node.holds = 1 << node.number
        for child in ast.iter_child_nodes(node):
            node.holds |= child.holds
    return tree


def edited(tree: ast.AST, edits: Sequence[Edit]) -> Any:
    """A copy of a numbered tree with these changes; it shares what does not change.

    Outer ones come first: what they put in holds the numbers of the pieces that it keeps, and inner ones find them.
    """
    for edit in sorted(edits, key=lambda edit: (edit.place, not edit.keeps)):
        tree = _applied(tree, edit)
    return tree


def _applied(value: Any, edit: Edit) -> Any:
    if isinstance(value, list):
        return [_applied(item, edit) for item in value]
    if not isinstance(value, ast.AST) or not getattr(value, "holds", -1) >> edit.place & 1:
        return value
    if getattr(value, "number", -1) == edit.place:
        if edit.new is None:
            return ast.copy_location(ast.Pass(), value) if isinstance(value, ast.stmt) else None
        return ast.fix_missing_locations(ast.copy_location(copy(edit.new), value))
    new = copy(value)
    for name, field in ast.iter_fields(value):
        if isinstance(field, (ast.AST, list)):
            setattr(new, name, _applied(field, edit))
    return new


def change(node: ast.AST, new: ast.AST | None, slug: str, words: str, rank: int = LIKELY, kind: str = "") -> Edit:
    return Edit(node.number, new, slug_of(slug), words, rank, kind)


def called(node: ast.Call) -> tuple[str, bool]:
    """The name of what is called, and whether it is a method of a value."""
    if isinstance(node.func, ast.Name):
        return node.func.id, False
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value
        within = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        return node.func.attr, within not in MODULES
    return "", False


def constant(value: float | None) -> ast.expr:
    if isinstance(value, (int, float)) and value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def instead(new: ast.AST, old: ast.AST, otherwise: str) -> str:
    text, was = shown(new), shown(old)
    if max(len(text), len(was)) > 60:
        return f"{otherwise} were another"
    return f"`{text}` stood in the place of `{was}`"


def shown(node: ast.AST) -> str:
    """The text of a piece of a program: √(d_k) for math.sqrt(d_k), Kᵀ for K.T."""
    text = re.sub(r"\b(?:np|torch|math|F|nn\.functional)\.", "", ast.unparse(node))
    text = _TURNED.sub("ᵀ", text)
    text = re.sub(r"\bsqrt\(", "√(", text)
    text = re.sub(r"_size\('([^']*)'\)", lambda found: found[1].replace("*", "·"), text)
    return re.sub(r"√\((\w+)\)", r"√\1", text).replace("\n", " ")


def brief(node: ast.AST, otherwise: str) -> str:
    """The same in backticks, or other words where it is long."""
    text = shown(node)
    return f"`{text}`" if len(text) <= LONGEST else otherwise


def slug_of(*parts: str) -> str:
    """A short and stable name made of words: "left-out-sqrt-d-k"."""
    text = "-".join(parts).replace("√", "sqrt-").replace("ᵀ", "-turned").replace("·", "-times-").lower()
    for sign, word in (("<=", "le"), (">=", "ge"), ("<", "lt"), (">", "gt"), ("@", "at"), ("/", "over"), ("~", "not-")):
        text = text.replace(sign, f"-{word}-")
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")[:60].strip("-")


def one_off(node: ast.expr) -> tuple[ast.BinOp, ast.BinOp]:
    """One less and one more."""
    return ast.BinOp(node, ast.Sub(), ast.Constant(1)), ast.BinOp(node, ast.Add(), ast.Constant(1))


def preludes(edits: Sequence[Edit]) -> list[ast.stmt]:
    """The lines of those edits that stand first."""
    return [edit.new for edit in edits if isinstance(edit.new, ast.stmt)]
