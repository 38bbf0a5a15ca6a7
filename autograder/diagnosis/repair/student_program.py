"""Reads a student's function, makes other versions of it, and records the value of each step."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field

from ...judging.cases_and_expected import Posed
from ...records import Answer, Call
from ...worker.run_rewritten import NOTED
from ..operators.program_edit import Edit, edited, numbered

#: Nodes that are recorded as steps.
STEPS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Subscript, ast.Attribute, ast.Name)


def noted(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Return the numbered function in which each step records its value under its number."""
    new = copy(tree)
    new.body = [_statement(statement) for statement in tree.body]
    return ast.fix_missing_locations(new)


def _statement(node: ast.AST) -> ast.AST:
    """A statement, or another node that is no expression, with its expressions recorded."""
    new = copy(node)
    for name, part in ast.iter_fields(node):
        if name == "annotation":
            continue
        if isinstance(part, list):
            setattr(new, name, [_part(item) for item in part])
        elif isinstance(part, ast.AST):
            setattr(new, name, _part(part))
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


#: Longer texts are not read.
LONGEST = 20_000
#: Names that suggest random numbers.
DRAWS = re.compile(r"rand|rng|normal|draw|sample|uniform|generator", re.IGNORECASE)
#: How many texts are sent in one batch.
AT_A_TIME = 120


@dataclass(frozen=True)
class OwnProgram:
    """A student's function that can be changed and run again.

    tree: the function with numbered nodes; its lines count from the start of the cell.
    run: calls several texts of the function on the cases of a posed exercise, as far as the time allows.
    """

    tree: ast.FunctionDef
    decorators: list[ast.expr]
    run: Callable[[Sequence[str], Posed], Answer]
    _texts: dict[ast.stmt, str] = field(default_factory=dict, compare=False, repr=False)
    _noted: dict[tuple[ast.FunctionDef, Posed, int], Call | None] = field(
        default_factory=dict, compare=False, repr=False
    )

    @staticmethod
    def read(source: str, name: str, run: Callable[[Sequence[str], Posed], Answer]) -> OwnProgram | None:
        """Return the last function of this name in a cell, or None if there is none that can be parsed."""
        if len(source) > LONGEST:
            return None
        try:
            body = ast.parse(textwrap.dedent(source)).body
            found = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]
            return OwnProgram(numbered(found[-1]), found[-1].decorator_list, run) if found else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @property
    def names(self) -> set[str]:
        """All names that it uses."""
        return {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)} | {
            argument.arg for argument in self.tree.args.args
        }

    @property
    def draws(self) -> bool:
        """Whether its names suggest that it draws random numbers."""
        return DRAWS.search(ast.unparse(self.tree)) is not None

    def text(self, *edits: Edit) -> str:
        """Return the text of the function with these edits."""
        return self.text_of(edited(self.tree, edits))

    def text_of(self, tree: ast.FunctionDef) -> str:
        """Return the text of a version of the function, ready to run."""
        head = ast.FunctionDef(
            tree.name, tree.args, [], self.decorators, type_params=getattr(tree, "type_params", []), lineno=1
        )
        body = [self._text_of(statement) for statement in tree.body or [ast.Pass()]]
        return "\n".join((ast.unparse(head), *body))

    def _text_of(self, statement: ast.stmt) -> str:
        """The indented text of a statement, cached because most are the same in every version."""
        if statement not in self._texts:
            self._texts[statement] = textwrap.indent(ast.unparse(statement), "    ")
        return self._texts[statement]

    def noted(self, posed: Posed, index: int) -> Call | None:
        """Return the call of one case with the recorded value of each step, in the order of the run; it runs once."""
        key = (self.tree, posed, index)
        if key not in self._noted:
            (calls,) = self.calls([self.text_of(noted(self.tree))], posed.part([index])) or ([],)
            self._noted[key] = calls[0] if calls else None
        return self._noted[key]

    def values(self, posed: Posed, index: int) -> Sequence[tuple[int, object]]:
        """Return the steps of one case as (number, value)."""
        call = self.noted(posed, index)
        return call.noted if call is not None else []

    def calls(self, texts: Sequence[str], posed: Posed) -> list[list[Call]]:
        """Return the calls of all cases for each text; an empty list if the time ran out before."""
        count, found = len(posed.cases), []
        for start in range(0, len(texts), AT_A_TIME):
            part = texts[start : start + AT_A_TIME]
            calls = self.run(part, posed).calls
            found += [calls[i * count : (i + 1) * count] for i in range(len(part))]
            if len(calls) < count * len(part):
                break
        return [calls if len(calls) == count else [] for calls in found]
