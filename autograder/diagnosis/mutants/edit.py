"""One small change of a program, how it is made, and which names a piece of a program knows."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
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


def names_in(tree: ast.FunctionDef) -> list[str]:
    arguments = [argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)]
    stored = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return list(dict.fromkeys([*arguments, *stored]))


def arguments_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> set[str]:
    """The arguments of the function that holds a node."""
    while node in parents:
        node = parents[node]
    return {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}


def bound_at(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> set[str]:
    """The names that have a value where a node stands: arguments, and what an earlier line or round of a loop binds."""
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
    """(name, value) of each place that gives a name a value; None for what is no plain assignment."""
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
    """Values that are compared and do nothing else: another number there may turn what is decided, by accident."""
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    sides = {each for test in tests for each in (test.left, *test.comparators)}
    loads = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    elsewhere = {node.id for node in loads if node not in sides}
    return sides | {value for name, value in assigned(tree) if value is not None and name not in elsewhere}


#: The sizes of the case that a mutant is just now asked about, by name.
sizes_of_case: ContextVar[Mapping[str, int]] = ContextVar("sizes_of_case")


def _size(words: str) -> float:
    """A size of the present case, a product of two or a quotient: "h*d_head". KeyError where it has none."""
    sizes = sizes_of_case.get()
    if "*" in words:
        return math.prod(sizes[name] for name in words.split("*"))
    if "/" in words:
        above, below = words.split("/")
        return sizes[above] / sizes[below]
    return sizes[words]


def _length(x: Any, axis: int = -1) -> Any:
    return (x * x).sum(axis, keepdims=True) ** 0.5


def _of_numbers(x: Any) -> Any:
    """The same; nobody does to a mask what is done to numbers."""
    if str(x.dtype).endswith("bool"):
        raise TypeError("a mask has no length, and no mean")
    return x


def _unit(x: Any) -> Any:
    """Each row with length 1."""
    return _of_numbers(x) / _length(x)


def _centred(x: Any) -> Any:
    """Each row with its mean subtracted."""
    return _of_numbers(x) - x.mean(-1, keepdims=True)


def _cosines(a: Any, b: Any) -> Any:
    """The product of two matrices, divided by the lengths of the rows of one and the columns of the other."""
    return (a / _length(a)) @ (b / _length(b, -1 if b.ndim == 1 else -2))


def _reread(x: Any) -> Any:
    """In the shape of the transposed array, without moving a number."""
    return x.reshape(tuple(reversed(x.shape)))


def _first_for_all(x: Any, axis: int) -> Any:
    """The first entry along an axis in the place of all."""
    if x.shape[axis] < 2:
        return x
    index = [slice(None)] * x.ndim
    index[axis] = slice(0, 1)
    return x[tuple(index)] + (x != x) if x.dtype.__str__().endswith("bool") else x[tuple(index)] + 0 * x


def _turned_round(x: Any) -> Any:
    """Along the first axis in reverse order."""
    order = list(range(x.shape[0] - 1, -1, -1))
    return x[order]


def _cut(x: Any) -> Any:
    """Without what comes after the point."""
    return x - x % 1 + (x < 0) * (x % 1 > 0)


def _exchanged(params: Mapping[str, Any], one: str, other: str) -> dict[str, Any]:
    """A dict whose entries with one word in their names have changed places with those with the other."""

    def partner(name: str) -> str:
        changed = name.replace(one, other) if one in name else name.replace(other, one)
        return changed if changed in params else name

    return {name: params[partner(name)] for name in params}


def _relu(x: Any) -> Any:
    return x * (x > 0)


def _silu(x: Any) -> Any:
    return x * x.sigmoid()


def _sigmoid(x: Any) -> Any:
    return x.sigmoid()


def _tanh(x: Any) -> Any:
    return x.tanh()


def _gelu(x: Any) -> Any:
    return x * (1 + (x / math.sqrt(2)).erf()) / 2


def _identity(x: Any) -> Any:
    return x


HELPERS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(_size, _length, _unit, _centred, _cosines, _reread, _first_for_all, _turned_round, _cut, _exchanged),
        *(_relu, _silu, _sigmoid, _tanh, _gelu, _identity),
    )
}
