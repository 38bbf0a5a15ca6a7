"""Makes all mutants of a model solution: it and the course's functions that it calls, each changed in one place."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import CodeType, FunctionType
from typing import Any

from ...safe_text import listed
from ..operators.all_changes import edits_of
from ..operators.change_descriptions import name_of, told_apart
from ..operators.mutant_functions import HELPERS, sizes_of_case
from ..operators.program_edit import FAR, MODEL, Edit, Program, edited, names_in, numbered, together

#: _GOES_ON is the value of a statement that does not return; _ARGUMENTS is the index for edits outside of the body.
_GOES_ON, _ARGUMENTS = object(), -1


@dataclass
class Stepwise:
    """A numbered function whose statements are compiled when first needed, unchanged or edited."""

    tree: ast.FunctionDef
    _compiled: dict[tuple[int, ...], CodeType] = field(default_factory=dict)
    _kept: list[Edit] = field(default_factory=list)  # kept alive, because keys of _compiled hold their ids

    def build(self, function: FunctionType, edits: Sequence[Edit], parts: Mapping[str, Any]) -> Callable[..., Any]:
        """Return the function with these edits. parts: values for the names of functions in it."""
        by_statement: dict[int, list[Edit]] = {}
        for edit in edits:
            by_statement.setdefault(self._statement_of(edit.place), []).append(edit)
        space = {**function.__globals__, **parts, "_GOES_ON": _GOES_ON}
        arguments = by_statement.pop(_ARGUMENTS, [])
        lines = [_code_of(edit.new) for edit in arguments if isinstance(edit.new, ast.stmt)]
        lines += [self._line(number, by_statement.get(number, ())) for number in range(len(self.tree.body))]
        bind = self._binder([edit for edit in arguments if not isinstance(edit.new, ast.stmt)], space)

        def call(*args: Any, **kwargs: Any) -> Any:
            names = {**space, **bind(*args, **kwargs)}
            for line in lines:
                given = eval(line, names)
                if given is not _GOES_ON:
                    return given
            return None

        return call

    def _statement_of(self, place: int) -> int:
        """The index of the statement that holds this place, or _ARGUMENTS."""
        held = (number for number, statement in enumerate(self.tree.body) if statement.holds >> place & 1)
        return next(held, _ARGUMENTS)

    def _line(self, number: int, edits: Sequence[Edit]) -> CodeType:
        key = (number, *map(id, edits))
        if key not in self._compiled:
            self._compiled[key] = _code_of(edited(self.tree.body[number], edits))
            self._kept.extend(edits)
        return self._compiled[key]

    def _binder(self, edits: Sequence[Edit], space: dict[str, Any]) -> Callable[..., dict[str, Any]]:
        """A function that takes the same arguments and returns them by name."""
        key = (_ARGUMENTS, *map(id, edits))
        if key not in self._compiled:
            body = [ast.Return(ast.Call(ast.Name("locals", ast.Load()), [], []))]
            self._compiled[key] = _compiled(ast.FunctionDef("_bind", edited(self.tree.args, edits), body, [], None))
            self._kept.extend(edits)
        made = dict(space)
        exec(self._compiled[key], made)
        return made["_bind"]


def _code_of(statement: ast.stmt) -> CodeType:
    """The code of a statement with global names; its value is what the statement returns, or else _GOES_ON."""
    stored = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    body = [statement, ast.Return(ast.Name("_GOES_ON", ast.Load()))]
    body = [ast.Global(sorted(stored)), *body] if stored else body
    nothing = ast.arguments([], [], None, [], [], None, [])
    code = _compiled(ast.FunctionDef("_line", nothing, body, [], None))
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))


def _compiled(function: ast.FunctionDef) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Module([function], [])), "<a plain program>", "exec")


#: Only functions of this package are changed in a model solution that calls them.
COURSE = __name__.split(".")[0] + ".exercises"
DEEPEST = 3
#: The cost limit for one program's mutants, in function calls, the likeliest mutants first. An exercise without cases
#: of equal sizes gets half.
BUDGET = 960_000


@dataclass(frozen=True, eq=False)
class Mutant:
    """The model solution with one edit, or with edits of one kind wherever they apply.

    path: the names by which the program reaches the changed function; part: that function.
    sizes: the names of the cases' sizes.
    """

    program: FunctionType
    path: tuple[str, ...]
    part: FunctionType
    sizes: tuple[str, ...]
    edits: tuple[Edit, ...]

    @property
    def rank(self) -> int:
        """How likely it is; lower is likelier."""
        return self.edits[0].ranks[MODEL]

    @property
    def slug(self) -> str:
        """Its name."""
        return "-and-".join(dict.fromkeys(name_of(edit) for edit in self.edits))

    def words(self, hidden: Collection[str] = ()) -> str:
        """Return the words that complete "… your code". hidden: names that they must not contain."""
        others = edits_of_part(self.part, self.sizes) if len(self.edits) == 1 else ()
        parents = _program(self.part, self.sizes).parents
        words = dict.fromkeys(told_apart(edit, others, parents, hidden) for edit in self.edits)
        return f"{listed(list(words))}{f' (in what `{self.exercise}` computes)' if self.path and self.exercise else ''}"

    @property
    def exercise(self) -> str:
        """The exercise whose model solution is changed; "" for another function, which no student knows.

        Students know the changed function by the exercise's name.
        """
        return self.part.__module__.rpartition(".")[2] if self.part.__name__ == "plain" else ""

    @property
    def names(self) -> set[str]:
        """The names in the changed function that the exercise's docstring may lack."""
        tree = tree_of(self.part)
        arguments = [argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)] if self.exercise else []
        return set(names_in(tree)).difference(arguments)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The changed program, compiled when first needed."""
        return _build(self.program, {self.part: self.edits})


@cache
def mutants(program: FunctionType, sizes: tuple[str, ...]) -> tuple[Mutant, ...]:
    """Return all mutants with one edit, the likeliest first, then those with edits of one kind wherever they apply."""
    single, alike = [], []
    for path, part in _parts(program):
        edits = [edit for edit in edits_of_part(part, sizes) if not path or edit.ranks[MODEL] < FAR]
        single += [Mutant(program, path, part, sizes, (edit,)) for edit in edits]
        alike += [Mutant(program, path, part, sizes, some) for some in together(edits)]
    return (*sorted(single, key=lambda mutant: mutant.rank), *alike)


def single_mutants(posed: Any) -> tuple[Mutant, ...]:
    """Return the mutants that a diagnosis may try, as many as the budget allows, the likeliest first."""
    sizes = tuple(dict.fromkeys(name for case in posed.cases for name in case.sizes if name.isidentifier()))
    program = posed.exercise.plain
    budget = BUDGET if posed.probes is not None else BUDGET // 2
    return mutants(program, sizes)[: budget // cost_of(program, posed, 0)]


def cost_of(program: FunctionType, posed: Any, index: int) -> int:
    """Return the program's cost in one case: the number of function calls that it makes."""
    key = (program, index)
    if key not in posed.notes:
        calls = itertools.count()
        sizes = sizes_of_case.set(posed.cases[index].sizes)
        built = _build(program, dict.fromkeys(_reached(program), ()))
        posed.tried(built, index)  # warm up, so that one-time work doesn't count
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
    """Return the edits of one of the course's functions."""
    return tuple(edits_of(_program(part, sizes)))


@cache
def _program(part: FunctionType, sizes: tuple[str, ...]) -> Program:
    return Program(tree_of(part), MODEL, sizes)


@cache
def tree_of(function: FunctionType) -> ast.FunctionDef:
    return numbered(ast.parse(textwrap.dedent(inspect.getsource(function))).body[0])


def _parts(program: FunctionType) -> Iterator[tuple[tuple[str, ...], FunctionType]]:
    """The program and the course's functions that it calls, each once, with the names by which it is reached."""
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
    """The function with its own edits, calling parts with theirs."""
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
