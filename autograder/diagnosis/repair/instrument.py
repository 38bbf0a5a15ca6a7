"""Versions of a function in which each step hands its value to `_noted` on the way."""

from __future__ import annotations

import ast
from copy import copy

from ...worker.notes import NOTED

#: What makes a value. A name hands on one that was made before.
STEPS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Subscript, ast.Attribute, ast.Name)


def noted(tree: ast.FunctionDef) -> ast.FunctionDef:
    """The numbered function with each of its steps noted under its number."""
    new = copy(tree)
    new.body = [_statement(statement) for statement in tree.body]
    return ast.fix_missing_locations(new)


def _statement(node: ast.AST) -> ast.AST:
    """A statement, or a part of one that is no expression, with its expressions noted."""
    new = copy(node)
    for name, field in ast.iter_fields(node):
        if name == "annotation":
            continue
        if isinstance(field, list):
            setattr(new, name, [_part(item) for item in field])
        elif isinstance(field, ast.AST):
            setattr(new, name, _part(field))
    return new


def _part(node: object) -> object:
    if isinstance(node, ast.expr):
        return _expression(node)
    return _statement(node) if isinstance(node, ast.AST) and not isinstance(node, ast.arguments) else node


def _expression(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.JoinedStr):
        return node
    if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
        new = copy(node)
        new.func = copy(node.func)
        if isinstance(node.func, ast.Attribute):
            new.func.value = _expression(node.func.value)
        new.args = [_expression(argument) for argument in node.args]
        new.keywords = [_statement(keyword) for keyword in node.keywords]
    else:
        new = _statement(node) if not isinstance(node, ast.Name) else node
    is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    if not isinstance(node, STEPS) or not is_read or not hasattr(node, "number"):
        return new
    noting = ast.Call(ast.Name(NOTED, ast.Load()), [ast.Constant(node.number), new], [])
    return ast.copy_location(noting, node)
