"""Lists every change of a function that is tried, the likeliest first."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from . import change_calls, change_expressions, change_indices, change_statements
from .program_edit import MODEL, STUDENT, Edit, Parents, Program, assigned, called, only_compared

#: Changes whose words are the clearest; they are tried before others that have the same effect.
PLAIN = (
    *("falsy-for-none", "decided-by-sizes", "marks-too-few", "marks-too-many", "one-choice-too-many"),
    "not-kept-apart",
)
#: Functions whose argument is a seed.
SEEDS = ("manual_seed", "default_rng", "seed", "Random", "RandomState")


def edits_of(program: Program) -> list[Edit]:
    """Return a function's edits, each in one place, the likeliest first; of two equal ones, the first is kept."""
    whose = program.whose
    found: dict[tuple[int, str], Edit] = {}
    for one in _all(program):
        if one.ranks[whose] is not None:
            found.setdefault((one.place, ast.dump(one.new) if one.new is not None else ""), one)
    return sorted(found.values(), key=lambda one: (one.ranks[whose], one.kind not in PLAIN))


def _all(program: Program) -> Iterator[Edit]:
    tree = program.tree
    if program.whose == MODEL:
        for node in ast.walk(tree):
            yield from change_expressions.of_infinity(node)
        yield from change_expressions.of_given(program)
        yield from change_statements.of_arguments(tree)
    else:
        yield from change_statements.of_what_stays(tree)
    named = change_expressions.sizes_in(program)
    writes = any(map(_writes, ast.walk(tree)))
    blocks = {name for name, value in assigned(tree) if isinstance(value, ast.Call) and called(value)[0] == "slice"}
    limits = only_compared(tree)
    within_limits = {each for limit in limits if not isinstance(limit, ast.Compare) for each in ast.walk(limit)}
    for node in ast.walk(tree):
        if program.whose == MODEL:
            if change_expressions.is_a_size(node, program.parents):
                yield from change_expressions.of_size(node, program, named)
        elif _computes_nothing(node, program.parents):
            continue
        if isinstance(node, ast.expr):
            found = _of_expression(node, program, blocks)
            yield from (one for one in found if one.kind != "function" or node not in within_limits)
            if program.whose == STUDENT and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                yield from change_expressions.of_value(node, program, node in limits)
        else:
            yield from _of_statement(node, program, writes)


def _of_expression(node: ast.expr, program: Program, blocks: set[str]) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp):
        yield from change_expressions.of_operation(node, program)
    elif isinstance(node, ast.UnaryOp):
        yield from change_expressions.of_unary(node, program)
    elif isinstance(node, ast.BoolOp):
        yield from change_expressions.of_logic(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from change_expressions.of_comparison(node, program)
    elif isinstance(node, ast.Call):
        yield from change_calls.of_call(node, program)
    elif isinstance(node, ast.Subscript):
        yield from change_indices.of_subscript(node, program, blocks)
    elif isinstance(node, ast.Attribute):
        yield from change_expressions.of_transposition(node)
    elif isinstance(node, ast.Constant):
        yield from change_expressions.of_constant(node, program)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from change_expressions.of_name(node, program)
    elif isinstance(node, ast.IfExp):
        yield from change_statements.of_condition(node)


def _of_statement(node: ast.AST, program: Program, writes: bool) -> Iterator[Edit]:
    if isinstance(node, ast.If):
        yield from change_statements.of_condition(node)
    elif isinstance(node, ast.Return):
        yield from change_statements.of_return(node, program)
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)):
        yield from change_statements.of_assignment(node, program, writes)
    if isinstance(node, (ast.FunctionDef, ast.For, ast.While, ast.If, ast.With)):
        yield from change_statements.of_block(node, program)


def _writes(node: ast.AST) -> bool:
    """Whether it writes into an array."""
    if isinstance(node, ast.Call):
        name = called(node)[0]
        return name == "fill_diagonal" or (name.endswith("_") and not name.startswith("_"))
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, (ast.Name, ast.Subscript))
    return isinstance(node, ast.Assign) and any(isinstance(target, ast.Subscript) for target in node.targets)


def _computes_nothing(node: ast.AST, parents: Parents) -> bool:
    """Whether a change there explains nothing (in an annotation, text or seed), or makes an exponent too large."""
    parent = parents.get(node)
    if isinstance(node, ast.expr) and isinstance(parent, (ast.AnnAssign, ast.JoinedStr, ast.FormattedValue)):
        return True
    if isinstance(parent, ast.Call) and node in parent.args and called(parent)[0] in SEEDS:
        return True
    return _grows(node, parents)


def _grows(node: ast.AST, parents: Parents) -> bool:
    """Whether it is part of an exponent or of a shift's distance.

    A size there makes numbers so large that computing them takes forever, and no alarm interrupts that. A literal
    exponent may be changed.
    """
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
