"""From a model solution to all its mutants: its functions, each changed in one place."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import CodeType, FunctionType
from typing import Any

from ..operators.catalogue import edits_of
from ..operators.edit import FAR, MODEL, Edit, Program, edited, names_in, numbered, together
from ..operators.mutant_functions import HELPERS, sizes_of_case
from ..operators.words import name_of, told_apart

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
        lines = [_code(edit.new) for edit in arguments if isinstance(edit.new, ast.stmt)]
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


#: Where the functions that a plain program is made of come from; what they call elsewhere stays as it is.
COURSE = __name__.split(".")[0] + ".exercises"
DEEPEST = 3
#: What the changes of one program may cost, in calls that it makes: the likeliest come first. Half of it for what has
#: no cases of equal sizes beside it, as they have none themselves.
BUDGET = 1_200_000


@dataclass(frozen=True, eq=False)
class Mutant:
    """The model solution with one change, or with changes of one kind wherever they can be made.

    path: the names by which the changed function is reached from the program; part: that function. sizes: of the cases.
    """

    program: FunctionType
    path: tuple[str, ...]
    part: FunctionType
    sizes: tuple[str, ...]
    edits: tuple[Edit, ...]

    @property
    def rank(self) -> int:
        """How likely it is."""
        return self.edits[0].ranks[MODEL]

    @property
    def slug(self) -> str:
        """Its name."""
        return "-and-".join(dict.fromkeys(name_of(edit) for edit in self.edits))

    @property
    def words(self) -> str:
        """What completes "It answers as if …"."""
        others = edits_of_part(self.part, self.sizes) if len(self.edits) == 1 else ()
        parents = _program(self.part, self.sizes).parents
        words = [told_apart(edit, others, parents) for edit in self.edits]
        return ", and ".join(f"in `{self.changed}` {each}" if self.path else each for each in dict.fromkeys(words))

    @property
    def changed(self) -> str:
        """The function of the course that is changed, where the program only calls it; "" otherwise.

        Students call it by the exercise's name.
        """
        name = self.part.__name__
        return (self.part.__module__.rpartition(".")[2] if name == "plain" else name) if self.path else ""

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The changed program, compiled when it is first needed."""
        return _build(self.program, {self.part: self.edits})


@cache
def mutants(program: FunctionType, sizes: tuple[str, ...]) -> tuple[Mutant, ...]:
    """All mutants by one change, the likeliest first, and by one kind of change wherever it can be made."""
    single, alike = [], []
    for path, part in _parts(program):
        edits = [edit for edit in edits_of_part(part, sizes) if not path or edit.ranks[MODEL] < FAR]
        single += [Mutant(program, path, part, sizes, (edit,)) for edit in edits]
        alike += [Mutant(program, path, part, sizes, some) for some in together(edits)]
    return (*sorted(single, key=lambda mutant: mutant.rank), *alike)


def single_mutants(posed: Any) -> tuple[Mutant, ...]:
    """The mutants by one change that a diagnosis may try, the likeliest first."""
    sizes = tuple(dict.fromkeys(name for case in posed.cases for name in case.sizes if name.isidentifier()))
    program = posed.exercise.plain
    budget = BUDGET if posed.probes is not None else BUDGET // 2
    return mutants(program, sizes)[: budget // cost_of(program, posed, 0)]


def cost_of(program: FunctionType, posed: Any, index: int) -> int:
    """What the program costs in one case: how many calls it makes, those of each step included."""
    key = (program, index)
    if key not in posed.notes:
        calls = itertools.count()
        sizes = sizes_of_case.set(posed.cases[index].sizes)
        built = _build(program, dict.fromkeys(_reached(program), ()))
        posed.tried(built, index)  # what is done at the first time alone does not count
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, argument: next(calls) if event in ("call", "c_call") else None)
        try:
            posed.tried(built, index)
        finally:
            sys.setprofile(before if callable(before) else None)
            sizes_of_case.reset(sizes)
        posed.notes[key] = next(calls)
    return posed.notes[key]


@cache
def edits_of_part(part: FunctionType, sizes: tuple[str, ...]) -> tuple[Edit, ...]:
    """The changes of one function of the course."""
    return tuple(edits_of(_program(part, sizes)))


@cache
def _program(part: FunctionType, sizes: tuple[str, ...]) -> Program:
    return Program(tree_of(part), MODEL, sizes)


@cache
def tree_of(function: FunctionType) -> ast.FunctionDef:
    return numbered(ast.parse(textwrap.dedent(inspect.getsource(function))).body[0])


def _parts(program: FunctionType) -> Iterator[tuple[tuple[str, ...], FunctionType]]:
    """The program and the functions of the course that it calls, each once, with the names that lead there."""
    seen: set[FunctionType] = set()
    waiting: list[tuple[tuple[str, ...], FunctionType]] = [((), program)]
    while waiting:
        path, function = waiting.pop(0)
        if function in seen:
            continue
        seen.add(function)
        yield path, function
        if len(path) < DEEPEST:
            waiting += [((*path, name), part) for name, part in called_by(function)]


@cache
def called_by(function: FunctionType) -> list[tuple[str, FunctionType]]:
    names = dict.fromkeys(node.id for node in ast.walk(tree_of(function)) if isinstance(node, ast.Name))
    own = names_in(tree_of(function))
    found = [(name, function.__globals__.get(name)) for name in names if name not in own]
    return [(n, f) for n, f in found if isinstance(f, FunctionType) and f.__module__.startswith(COURSE)]


def _build(function: FunctionType, edits: Mapping[FunctionType, Sequence[Edit]]) -> Callable[..., Any]:
    """The function with its edits and with its parts changed by theirs."""
    parts = {
        name: _build(part, edits)
        for name, part in called_by(function)
        if part is not function and not edits.keys().isdisjoint(_reached(part))
    }
    return _stepwise(function).build(function, edits.get(function, ()), {**HELPERS, **parts})


@cache
def _stepwise(function: FunctionType) -> Stepwise:
    return Stepwise(tree_of(function))


@cache
def _reached(function: FunctionType) -> frozenset[FunctionType]:
    return frozenset(part for _, part in _parts(function))
