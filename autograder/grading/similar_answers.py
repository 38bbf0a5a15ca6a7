"""Finds students whose answers are more alike than short functions usually are, for a person to check.

It changes no mark. An answer is compared statement by statement, as a syntax tree: names that the student chose,
comments, docstrings, annotations and the order of lines don't count. A short answer says nothing,
because there are few ways to write it.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from ..exercises import is_exercise
from ..reading.course_contents import Course

#: The fewest nodes that an answer's syntax tree must have to be compared, and that all matching answers of a pair must
#: have together.
LEAST, LEAST_TOGETHER = 20, 60
#: The share of common nodes from which two answers match, and the share of matching answers from which two notebooks
#: are alike.
SAME, ALIKE = 0.8, 0.6
#: Name under which the course's own answers are listed.
PUBLISHED = "the published solution"
LETTERS_CAP = 20_000
INNER = ("body", "orelse", "finalbody", "handlers", "cases")
SIGNS = (ast.operator, ast.cmpop, ast.unaryop, ast.boolop, ast.expr_context)

#: An answer's statements, each without the statements inside it -> number of nodes.
Form = Counter[str]


@dataclass(frozen=True)
class Pair:
    """Describes two alike notebooks of one unit.

    shared: exercises with the same answer. letters: how many of those agree letter by letter.
    """

    unit: str
    one: str
    other: str
    shared: tuple[str, ...]
    compared: int
    letters: int


@dataclass
class Copies:
    """Holds the pairs, the most alike first. unread: answers that cannot be compared. students: number compared."""

    pairs: list[Pair] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    students: int = 0

    def groups(self) -> Iterator[tuple[str, list[str]]]:
        """Yield unit and names of each group of students who are alike, directly or through others."""
        for unit in dict.fromkeys(pair.unit for pair in self.pairs):
            group: dict[str, set[str]] = {}
            for pair in (pair for pair in self.pairs if pair.unit == unit):
                together = group.get(pair.one, {pair.one}) | group.get(pair.other, {pair.other})
                group |= dict.fromkeys(together, together)
            for names in {id(each): each for each in group.values()}.values():
                yield unit, sorted(names)


def find_copies(root: Path, units: Iterable[str], before: Path | None = None) -> Copies:
    """Compare all notebooks of each unit with one another, with the published solution and with another class's.

    before: the course folder of that class. Only what `autograder grade` has recorded is read.
    """
    result, names = Copies(), set()
    for unit in units or Course(root).units():
        ours = dict(_notebooks(root, unit))
        names |= set(ours)
        others = {PUBLISHED: root / "solutions" / unit / f"{unit}.ipynb"} if ours else {}
        if before is not None:
            others |= {f"{name} (in {before})": path for name, path in _notebooks(before, unit)}
        answers = {name: _answers(path, name, unit, result) for name, path in (ours | others).items() if path.is_file()}
        students = sorted(name for name in answers if name in ours)
        for at, one in enumerate(students):
            for other in [*students[at + 1 :], *(name for name in answers if name in others)]:
                pair = compare(unit, one, other, answers[one], answers[other])
                result.pairs += [pair] if pair else []
    result.students = len(names)
    result.pairs.sort(key=lambda pair: (pair.unit, -len(pair.shared), -pair.letters, pair.one, pair.other))
    return result


def _notebooks(root: Path, unit: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((root / "grading" / "autograded").glob(f"*/{unit}/{unit}.ipynb")):
        yield path.parts[-3], path


def _answers(path: Path, name: str, unit: str, result: Copies) -> dict[str, tuple[str, Form]]:
    """Return exercise -> its source and form, from an autograded notebook or a solution, both files of ours."""
    found = {}
    for cell in nbformat.read(path, as_version=4).cells:
        marks = cell.metadata.get("nbgrader", {})
        function = marks.get("grade_id", "")
        if not marks.get("solution") or cell.cell_type != "code" or not is_exercise(function):
            continue
        try:
            form = form_of(cell.source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            result.unread.append(f"{name}: {function} of {unit} is no Python that can be compared")
            continue
        if sum(form.values()) >= LEAST:
            found[function] = (_bare(cell.source), form)
    return found


def _bare(source: str) -> str:
    lines = (line.strip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("###"))


def compare(
    unit: str, one: str, other: str, mine: Mapping[str, tuple[str, Form]], theirs: Mapping[str, tuple[str, Form]]
) -> Pair | None:
    """Return what two notebooks share, or None if they are not alike."""
    both = [name for name in mine if name in theirs]
    nodes = {name: sum(mine[name][1].values()) for name in both}
    same = [name for name in both if likeness(mine[name][1], theirs[name][1]) >= SAME]
    together = sum(nodes[name] for name in same)
    if together < LEAST_TOGETHER or together < ALIKE * sum(nodes.values()):
        return None
    return Pair(unit, one, other, tuple(same), len(both), sum(mine[name][0] == theirs[name][0] for name in same))


def likeness(one: Form, other: Form) -> float:
    """Return the share of the nodes that two answers have in common, from 0 to 1."""
    return sum((one & other).values()) / max(sum(one.values()), sum(other.values()), 1)


def form_of(source: str) -> Form:
    """Return statement -> nodes, summed over equal ones.

    Raises SyntaxError, ValueError, RecursionError or MemoryError.
    """
    if len(source) > LETTERS_CAP:
        raise ValueError("too long")
    tree = ast.parse(source)
    chosen: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            chosen.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            chosen.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            chosen.add(node.name)
    form: defaultdict[str, int] = defaultdict(int)
    for node in ast.walk(tree):
        idle = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)  # a docstring
        if isinstance(node, ast.stmt) and not idle and not isinstance(node, (ast.Import, ast.ImportFrom)):
            words, size = _told(node, chosen)
            form[words] += size
    return Counter(form)


def _told(node: ast.AST, chosen: set[str]) -> tuple[str, int]:
    """Return a node as text, without the statements inside it and without chosen names, and its number of nodes."""
    if isinstance(node, ast.Name):
        return ("_" if node.id in chosen else node.id), 1
    if isinstance(node, ast.arg):
        return "_", 1
    if isinstance(node, ast.Constant):
        return repr(node.value), 1
    parts, size = [], 0 if isinstance(node, SIGNS) else 1
    for name, value in ast.iter_fields(node):
        blank = name in ("ctx", "type_comment", "kind", "type_params", "annotation", "returns", "decorator_list")
        if blank or (name in INNER and isinstance(value, list)) or (name == "name" and isinstance(node, ast.stmt)):
            continue
        inner = [
            _told(each, chosen) for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)
        ]
        parts.append(
            f"{name}={value}" if not inner and not isinstance(value, list) else ",".join(one for one, _ in inner)
        )
        size += sum(each for _, each in inner)
    return f"{type(node).__name__}({';'.join(parts)})", size
