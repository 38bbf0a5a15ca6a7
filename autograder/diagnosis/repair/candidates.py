"""All small changes of a program that is not ours, the likeliest first."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ..mutants.edit import called
from ..mutants.scope import assigned, names_in, only_compared
from . import in_calls, in_expressions, in_statements
from .candidate import Parents, Repair, repair, text_of, together

#: Changes that say plainly what is meant, to be tried before others that come to the same.
PLAIN = (
    *("falsy-for-none", "decided-by-sizes", "marks-too-few", "marks-too-many", "one-choice-too-many"),
    "not-kept-apart",
)
#: What random numbers are drawn from.
SEEDS = ("manual_seed", "default_rng", "seed", "Random", "RandomState")


def repairs_of(tree: ast.FunctionDef, numbers: Sequence[str], arrays: Sequence[str] = ()) -> list[Repair]:
    """All changes of a numbered function, the likeliest first.

    numbers, arrays: its arguments that are plain numbers, and those that are arrays.
    """
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    found: dict[tuple[int, str], Repair] = {}
    for one in _all(tree, numbers, arrays, parents):
        found.setdefault((one.edit.place, ast.dump(one.edit.new) if one.edit.new is not None else ""), one)
    all_of_them = (*found.values(), *together(list(found.values()), tree))
    return sorted(all_of_them, key=lambda one: (one.edit.rank, one.slug not in PLAIN))


def _all(tree: ast.FunctionDef, numbers: Sequence[str], arrays: Sequence[str], parents: Parents) -> Iterator[Repair]:
    names, writes = names_in(tree), any(map(_writes, ast.walk(tree)))
    blocks = {name for name, value in assigned(tree) if isinstance(value, ast.Call) and called(value)[0] == "slice"}
    limits = only_compared(tree)
    within_limits = {each for limit in limits if not isinstance(limit, ast.Compare) for each in ast.walk(limit)}
    yield from in_statements.of_what_stays(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and (_is_of_a_type(node, parents) or _is_of_a_seed(node, parents)):
            continue
        if _grows(node, parents):
            continue
        if isinstance(node, ast.BinOp):
            yield from in_expressions.of_operation(node)
            yield from in_expressions.of_shares(node, arrays)
        elif isinstance(node, ast.UnaryOp):
            what = "sign of" if isinstance(node.op, ast.USub) else "negation in"
            words = f"the {what} {text_of(node)}"
            yield repair(node, node.operand, "sign", words)
        elif isinstance(node, ast.BoolOp):
            yield from in_expressions.of_logic(node)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from in_expressions.of_comparison(node, parents)
        elif isinstance(node, ast.Call):
            changes = in_calls.of_call(node, names)
            yield from (one for one in changes if one.slug != "function" or node not in within_limits)
        elif isinstance(node, ast.Subscript):
            yield from in_calls.of_subscript(node, blocks)
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            yield repair(node, node.value, "turned", f"the transposition in {text_of(node)}")
        elif isinstance(node, ast.Constant):
            yield from in_expressions.of_constant(node, parents)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from in_expressions.of_name(node, names, parents)
        elif isinstance(node, (ast.IfExp, ast.If)):
            yield from in_statements.of_condition(node)
        elif isinstance(node, ast.Return):
            yield from in_statements.of_return(node, names, parents)
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            yield from in_statements.of_assignment(node, parents, writes)
        if isinstance(node, (ast.FunctionDef, ast.For, ast.While, ast.If, ast.With)):
            yield from in_statements.of_block(node, parents)
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            yield from in_expressions.of_value(node, numbers, parents, node in limits)


def _writes(node: ast.AST) -> bool:
    """Does it write into an array?"""
    if isinstance(node, ast.Call):
        name = called(node)[0]
        return name == "fill_diagonal" or (name.endswith("_") and not name.startswith("_"))
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, (ast.Name, ast.Subscript))
    return isinstance(node, ast.Assign) and any(isinstance(target, ast.Subscript) for target in node.targets)


def _grows(node: ast.AST, parents: Parents) -> bool:
    """Does it stand in an exponent, or say how far bits are shifted? A size there makes numbers that nobody can wait
    for, and that no alarm interrupts; a number that is written down may be another one."""
    is_number = isinstance(node, ast.Constant)
    while node in parents:
        above = parents[node]
        if isinstance(above, ast.BinOp) and above.right is node:
            if isinstance(above.op, ast.LShift):
                return True
            if isinstance(above.op, ast.Pow):
                return not is_number or any(isinstance(each, ast.Name) for each in ast.walk(node))
        node = above
    return False


def _is_of_a_seed(node: ast.expr, parents: Parents) -> bool:
    """Does it say which random numbers are drawn? Others are no cause."""
    parent = parents.get(node)
    return isinstance(parent, ast.Call) and node in parent.args and called(parent)[0] in SEEDS


def _is_of_a_type(node: ast.expr, parents: Parents) -> bool:
    """Does it stand in an annotation, a text or a pattern, where nothing is computed?"""
    return isinstance(parents.get(node), (ast.AnnAssign, ast.JoinedStr, ast.FormattedValue))
