"""Runs a plain program step by step, so that a change of one line costs the compilation of that line alone.

Nothing here knows what a change means: it is handed a numbered function and edits of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from .edit import Edit, edited, preludes

_ITEM = "_item"


@dataclass(frozen=True)
class _Do:
    code: CodeType


@dataclass(frozen=True)
class _Give:
    code: CodeType


@dataclass(frozen=True)
class _Loop:
    items: CodeType
    take: CodeType
    body: tuple[ast.stmt, ...]


@dataclass(frozen=True)
class _While:
    test: CodeType
    body: tuple[ast.stmt, ...]


@dataclass(frozen=True)
class _Choose:
    test: CodeType
    body: tuple[ast.stmt, ...]
    otherwise: tuple[ast.stmt, ...]


@dataclass(frozen=True)
class _Leave:
    """`break` or `continue`."""

    kind: str


_Step = _Do | _Give | _Loop | _While | _Choose | _Leave


@dataclass(frozen=True)
class _Given:
    """What a `return` hands back, or how a loop was left."""

    value: Any
    kind: str = "return"


@dataclass
class Stepwise:
    """A numbered function, its statements compiled when they are first needed, as they stand or changed."""

    tree: ast.FunctionDef
    _compiled: dict[int, _Step] = field(default_factory=dict)
    _changed: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)  # what is gone could hand its id to another

    def build(self, function: FunctionType, edits: Sequence[Edit], parts: Mapping[str, Any]) -> Callable[..., Any]:
        """The function with these edits; parts: what names of functions stand for in it."""
        statements: dict[int, list[Edit]] = {}
        for edit in edits:
            statements.setdefault(self._statement_of(edit.place), []).append(edit)
        space = {**function.__globals__, **parts}
        arguments = statements.pop(-1, [])
        lines = [_code(line) for line in preludes(arguments)]
        bind = self._binder([edit for edit in arguments if not isinstance(edit.new, ast.stmt)], space)
        changed = {number: self._edited(number, tuple(own)) for number, own in statements.items()}

        def call(*args: Any, **kwargs: Any) -> Any:
            names = {**space, **bind(*args, **kwargs)}
            for line in lines:
                exec(line, names)
            given = self._run(self.tree.body, names, changed)
            return given.value if given is not None else None

        return call

    def _run(self, body: Sequence[ast.stmt], names: dict[str, Any], changed: Mapping[int, _Step]) -> _Given | None:
        for statement in body:
            step = changed.get(getattr(statement, "number", -1)) or self._step(statement)
            if type(step) is _Do:
                exec(step.code, names)
            elif type(step) is _Give:
                return _Given(eval(step.code, names))
            elif type(step) is _Leave:
                return _Given(None, step.kind)
            else:
                given = self._run_compound(step, names, changed)
                if given is not None:
                    return given
        return None

    def _run_compound(self, step: _Step, names: dict[str, Any], changed: Mapping[int, _Step]) -> _Given | None:
        if type(step) is _Choose:
            return self._run(step.body if eval(step.test, names) else step.otherwise, names, changed)
        if type(step) is _Loop:
            for item in eval(step.items, names):
                names[_ITEM] = item
                exec(step.take, names)
                given = self._run(step.body, names, changed)
                if given is not None and given.kind != "continue":
                    return given if given.kind == "return" else None
            return None
        while eval(step.test, names):
            given = self._run(step.body, names, changed)
            if given is not None and given.kind != "continue":
                return given if given.kind == "return" else None
        return None

    def _step(self, statement: ast.stmt) -> _Step:
        key = id(statement)
        if key not in self._compiled:
            self._compiled[key] = _step_of(statement)
            self._kept.append(statement)
        return self._compiled[key]

    def _edited(self, number: int, edits: tuple[Edit, ...]) -> _Step:
        key = (number, *(id(edit) for edit in edits))
        if key not in self._changed:
            statement = next(node for node in ast.walk(self.tree) if getattr(node, "number", None) == number)
            self._changed[key] = _step_of(edited(statement, edits))
            self._kept.extend(edits)
        return self._changed[key]

    def _statement_of(self, place: int) -> int:
        """The number of the innermost statement that holds this place; -1 among the arguments."""
        bit, number, body = 1 << place, -1, self.tree.body
        while True:
            inner = next((statement for statement in body if statement.holds & bit), None)
            if inner is None:
                return number
            number = inner.number
            body = [*getattr(inner, "body", ()), *getattr(inner, "orelse", ())]

    def _binder(self, edits: Sequence[Edit], space: dict[str, Any]) -> Callable[..., dict[str, Any]]:
        """A function that takes the same arguments and hands them back by name."""
        arguments = edited(self.tree.args, edits) if edits else self.tree.args
        key = ("arguments", *(id(edit) for edit in edits))
        if key not in self._changed:
            body = [ast.Return(ast.Call(ast.Name("locals", ast.Load()), [], []))]
            stub = ast.FunctionDef("_bind", arguments, body, [], None)
            module = ast.fix_missing_locations(ast.Module([stub], []))
            self._changed[key] = compile(module, f"<{self.tree.name}>", "exec")
            self._kept.extend(edits)
        made = dict(space)
        exec(self._changed[key], made)
        return made["_bind"]


def _step_of(statement: ast.stmt) -> _Step:
    if isinstance(statement, ast.Return):
        return _Give(_value(statement.value or ast.Constant(None)))
    if isinstance(statement, ast.For) and not statement.orelse:
        take = ast.Assign([statement.target], ast.Name(_ITEM, ast.Load()), lineno=1, col_offset=0)
        return _Loop(_value(statement.iter), _code(take), tuple(statement.body))
    if isinstance(statement, ast.While) and not statement.orelse:
        return _While(_value(statement.test), tuple(statement.body))
    if isinstance(statement, ast.If):
        return _Choose(_value(statement.test), tuple(statement.body), tuple(statement.orelse))
    if isinstance(statement, (ast.Break, ast.Continue)):
        return _Leave(type(statement).__name__.lower())
    return _Do(_code(statement))


def _code(statement: ast.stmt) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Module([statement], [])), "<a plain program>", "exec")


def _value(expression: ast.expr) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Expression(expression)), "<a plain program>", "eval")
