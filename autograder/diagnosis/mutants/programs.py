"""From a model solution to all its mutants: its functions, each changed in one place."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from . import calls, expressions, statements
from .edit import FAR, HELPERS, Edit, brief, change, edited, names_in, numbered, preludes, shown, sizes_of_case, slug_of


@dataclass(frozen=True)
class Mutant:
    """The program with some changes.

    words: completes "It answers as if …". key: tells it from all others. part: the function of the course that is
    changed, where the program only calls it.
    """

    slug: str
    words: str
    function: Callable[..., Any]
    key: str
    part: str = ""


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


#: The same slip is made in at most so many places at once.
TOGETHER = 4
#: Where the functions that a plain program is made of come from; what they call elsewhere stays as it is.
COURSE = __name__.split(".")[0] + ".exercises"
DEEPEST = 3
#: What the changes of one program may cost, in calls that it makes: the likeliest come first. Half of it for what has
#: no cases of equal sizes beside it, as they have none themselves.
BUDGET = 1_200_000


@dataclass(frozen=True)
class _Change:
    """An edit of one of the functions, wherever it is called: path holds names by which it is reached."""

    path: tuple[str, ...]
    part: FunctionType
    edit: Edit

    @property
    def words(self) -> str:
        return f"in `{_told(self.part)}` {self.edit.words}" if self.path else self.edit.words


@cache
def mutants(program: FunctionType, sizes: tuple[str, ...]) -> tuple[Mutant, ...]:
    """All mutants by one change, the likeliest first, and by one kind of change wherever it can be made."""
    alone = [(slip,) for slip in _changes(program, sizes)]
    alike: dict[tuple[tuple[str, ...], str], list[_Change]] = {}
    for (slip,) in alone:
        if slip.edit.kind:
            alike.setdefault((slip.path, slip.edit.kind), []).append(slip)
    together = [tuple(slips) for slips in alike.values() if 2 <= len({slip.edit.place for slip in slips}) == len(slips)]
    together = [slips for slips in together if len(slips) <= TOGETHER]
    return tuple(_mutant(program, slips) for slips in (*alone, *together))


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


def _mutant(program: FunctionType, changes: Sequence[_Change]) -> Mutant:
    slug = "-and-".join(dict.fromkeys(change.edit.slug for change in changes))
    words = ", and ".join(dict.fromkeys(change.words for change in changes))
    key = "; ".join(f"{'.'.join(change.path)} {change.edit.place} {change.edit.slug}" for change in changes)
    part = next((_told(change.part) for change in changes if change.path), "")
    return Mutant(slug, words, _Lazy(program, tuple(changes)), f"{key}: {words}", part)


class _Lazy:
    """A changed program, compiled when it is first called: most are never needed twice."""

    def __init__(self, program: FunctionType, changes: tuple[_Change, ...]) -> None:
        self._program, self._changes = program, changes
        self._built: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._built is None:
            edits: dict[FunctionType, list[Edit]] = {}
            for change in self._changes:
                edits.setdefault(change.part, []).append(change.edit)
            self._built = _build(self._program, edits)
        return self._built(*args, **kwargs)


@cache
def _changes(program: FunctionType, sizes: tuple[str, ...]) -> tuple[_Change, ...]:
    found = [
        _Change(path, part, edit)
        for path, part in _parts(program)
        for edit in _edits(part, sizes)
        if not path or edit.rank < FAR
    ]
    return tuple(sorted(found, key=lambda change: change.edit.rank))


def _told(part: FunctionType) -> str:
    """What students call a part: the exercise's name for its plain program."""
    return part.__module__.rpartition(".")[2] if part.__name__ == "plain" else part.__name__


@cache
def _edits(function: FunctionType, sizes: tuple[str, ...]) -> tuple[Edit, ...]:
    tree = tree_of(function)
    return (*expressions.fills_of(tree), *_edits_of(tree, sizes), *statements.of_arguments(tree))


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


def _edits_of(tree: ast.FunctionDef, sizes: Sequence[str]) -> Iterator[Edit]:
    """All changes of a numbered function. sizes: the names of the cases' sizes."""
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    by_code: dict[tuple[int, str], Edit] = {}
    for edit in _all_edits(tree, parents, sizes):
        by_code.setdefault((edit.place, ast.dump(edit.new) if edit.new is not None else ""), edit)
    found: dict[tuple[int, str], Edit] = {}
    for edit in by_code.values():  # the same words at one place: 1e-10 by two ways of rounding
        found.setdefault((edit.place, edit.words), edit)
    nodes = {node.number: node for node in ast.walk(tree)}
    places: dict[str, list[int]] = {}
    for edit in found.values():
        places.setdefault(edit.words, []).append(edit.place)
    for edit in found.values():
        same = sorted(set(places[edit.words]), key=lambda place: (nodes[place].lineno, nodes[place].col_offset))
        yield replace(edit, words=edit.words + _which(edit.place, same, nodes, parents)) if len(same) > 1 else edit


def _which(place: int, same: Sequence[int], nodes: Mapping[int, ast.AST], parents: dict[ast.AST, ast.AST]) -> str:
    """Words that tell one of several places from the others."""
    told = [_where(nodes[other], parents) for other in same]
    index = same.index(place)
    if told.count(told[index]) == 1:
        return told[index]
    return f" (place {index + 1} of {len(same)})"


def _where(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    """In which line, for words that fit several of them."""
    while not isinstance(node, ast.stmt) and node in parents:
        node = parents[node]
    if isinstance(node, ast.Return):
        return " in what it returns"
    if isinstance(node, ast.For):
        return f" in `for {shown(node.target)} in {shown(node.iter)}`"
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return f" where `{shown(target)}` is worked out" if isinstance(target, ast.Name) else ""


def _all_edits(tree: ast.FunctionDef, parents: dict[ast.AST, ast.AST], sizes: Sequence[str]) -> Iterator[Edit]:
    names, named = names_in(tree), expressions.sizes_in(tree, sizes)
    yield from expressions.of_given(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            yield from expressions.of_operation(node, parents)
            yield from expressions.of_brackets(node)
        elif isinstance(node, ast.UnaryOp):
            yield from expressions.of_sign(node, parents)
        elif isinstance(node, ast.arguments):
            yield from expressions.of_defaults(node)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from expressions.of_comparison(node)
        elif isinstance(node, ast.Call):
            yield from calls.of_call(node)
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT", "H"):
            yield change(node, node.value, slug_of("not-turned", shown(node.value)),
                        f"{brief(node.value, 'something')} were not transposed")  # fmt: skip
            reread = ast.Call(ast.Name("_reread", ast.Load()), [node.value], [])
            yield change(node, reread, slug_of("reshaped", shown(node.value)),
                        f"{brief(node.value, 'something')} were reshaped, not transposed")  # fmt: skip
        elif isinstance(node, ast.Subscript):
            yield from expressions.of_subscript(node)
            yield from expressions.of_key(node, tree)
        elif isinstance(node, (ast.IfExp, ast.If)):
            yield from statements.of_condition(node)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)):
            yield from statements.of_statement(node, tree, parents)
            yield from statements.of_value(node, sizes)
        elif isinstance(node, ast.For):
            yield from statements.of_loop(node, tree)
        elif isinstance(node, ast.Return):
            yield from statements.of_return(node, tree)
        elif isinstance(node, ast.Constant):
            yield from expressions.of_constant(node, parents)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from expressions.of_name(node, names, parents)
        if expressions.is_a_size(node, parents):
            yield from expressions.of_size(node, sizes, named)
