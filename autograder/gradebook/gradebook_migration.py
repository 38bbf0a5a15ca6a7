"""Brings the gradebook's cells up to date with a notebook, and defines our own tables in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from nbformat import NotebookNode
from nbgrader.api import (
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    MissingEntry,
    Notebook,
    SolutionCell,
    SourceCell,
    SubmittedNotebook,
    TaskCell,
)
from sqlalchemy import Column, Float, MetaData, String, Table, Text, delete, insert, select, update

TABLES = MetaData()
#: Manual marks and comments for cells that no longer exist.
ASIDE = Table(
    "autograder_aside",
    TABLES,
    Column("unit", String(128), primary_key=True),
    Column("cell", String(128), primary_key=True),
    Column("student", String(128), primary_key=True),
    Column("manual_score", Float),
    Column("extra_credit", Float),
    Column("comment", Text),
)
#: The notebook's own id of each cell, which identifies a renamed cell.
NAMES = Table(
    "autograder_cells",
    TABLES,
    Column("unit", String(128), primary_key=True),
    Column("cell", String(128), primary_key=True),
    Column("identity", String(128)),
)
#: Digests of the last recorded answer, and of the one for which the manual mark was given.
ANSWERS = Table(
    "autograder_answers",
    TABLES,
    Column("unit", String(128), primary_key=True),
    Column("cell", String(128), primary_key=True),
    Column("student", String(128), primary_key=True),
    Column("recorded", String(64)),
    Column("marked", String(64)),
)
#: A digest of the late-work rule under which a submission was last recorded.
RULES = Table(
    "autograder_rules",
    TABLES,
    Column("unit", String(128), primary_key=True),
    Column("student", String(128), primary_key=True),
    Column("rule", String(64)),
)
KINDS = {"grade": GradeCell, "solution": SolutionCell, "task": TaskCell}


def prepare(gradebook: Gradebook) -> None:
    """Create our own tables if they don't exist. Call it outside a transaction, because it uses its own."""
    TABLES.create_all(bind=gradebook.engine)


def note_rule(gradebook: Gradebook, unit: str, student: str, rule: str) -> bool:
    """Note the late-work rule under which a submission is recorded; return whether an earlier one was different."""
    place = (RULES.c.unit == unit, RULES.c.student == student)
    before = gradebook.db.execute(select(RULES.c.rule).where(*place)).scalar()
    if before is None:
        gradebook.db.execute(insert(RULES).values(unit=unit, student=student, rule=rule))
    elif before != rule:
        gradebook.db.execute(update(RULES).where(*place).values(rule=rule))
    return before not in (None, rule)


@dataclass
class _Change:
    """Collects the changes to one notebook's cells, to report them in one line."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    above: list[str] = field(default_factory=list)
    aside: int = 0
    back: int = 0

    def line(self, unit: str) -> list[str]:
        parts = [f"{', '.join(names)} {what}" for names, what in ((self.added, "added"), (self.removed, "taken out"))
                 if names]  # fmt: skip
        parts += [*self.renamed, *self.points]
        if self.aside:
            parts.append(f"{_entries(self.aside)} kept aside until the cell is back")
        if self.back:
            parts.append(f"{_entries(self.back)} put back")
        lines = [f"{unit}: the gradebook follows the notebook: {'; '.join(parts)}"] if parts else []
        remedy = "correct these marks in the formgrader"
        return [*lines, *(f"{unit}: by hand there are more points than {each}; {remedy}" for each in self.above)]


def _entries(number: int) -> str:
    return f"{number} {'entry' if number == 1 else 'entries'} by hand"


def migrate(gradebook: Gradebook, unit: str, notebook: NotebookNode) -> list[str]:
    """Enter an assignment's cells into the gradebook, or bring those there up to date. It makes only the commits that
    nbgrader's own calls would make.

    notebook: has nbgrader's metadata. Returns lines that say what changed, if anything did and there are submissions.
    """
    fresh = False
    try:
        found = gradebook.find_notebook(unit, unit)
    except MissingEntry:
        fresh = True
        gradebook.update_or_create_assignment(unit)
        kernel = json.dumps(notebook.metadata.get("kernelspec", {}))
        found = gradebook.add_notebook(unit, unit, kernelspec=kernel)
    change, database = _Change(), gradebook.db
    wanted = {(kind, str(cell.metadata.nbgrader.grade_id)): cell for cell in notebook.cells for kind in _kinds(cell)}
    there = {(kind, cell.name): cell for kind, cells in _cells(found) for cell in cells}
    for name, other in _renamed(database, unit, notebook, there, wanted):
        for kind in KINDS:
            if (kind, name) in there:
                there[kind, other] = there.pop((kind, name))
                there[kind, other].name = other
        for table in (ASIDE, ANSWERS, NAMES):
            database.execute(update(table).where(table.c.unit == unit, table.c.cell == name).values(cell=other))
        change.renamed.append(f"{name} is now called {other}")
    database.flush()
    for key in [key for key in there if key not in wanted]:
        change.aside += _remove(database, unit, there.pop(key))
        if key[0] != "solution":
            change.removed.append(key[1])
    database.flush()
    for (kind, name), cell in wanted.items():
        points = float(cell.metadata.nbgrader.get("points", 0)) if kind != "solution" else None
        if (kind, name) not in there:
            change.back += _add(database, unit, found, kind, name, cell.cell_type, points)
            if kind != "solution":
                change.added.append(name)
        elif points is not None:
            entry = there[kind, name]
            if entry.max_score != points:
                change.points.append(f"{name} is worth {points:g} instead of {entry.max_score:g} points")
                entry.max_score = points
                above = sorted(
                    grade.notebook.student.id for grade in entry.grades if (grade.manual_score or 0) > points
                )
                if above:
                    more = f" and {len(above) - 3} more" if len(above) > 3 else ""
                    change.above.append(f"{name} is worth now, {points:g}, of {', '.join(above[:3])}{more}")
            entry.cell_type = cell.cell_type
    _sources(database, found, notebook)
    _note_names(database, unit, notebook)
    database.commit()
    return [] if fresh or not found.submissions else change.line(unit)


def _kinds(cell: NotebookNode) -> Iterator[str]:
    marks = cell.metadata.get("nbgrader", {})
    yield from (kind for kind in KINDS if marks.get(kind))


def _cells(notebook: Notebook) -> Iterator[tuple[str, list[BaseCell]]]:
    yield "grade", notebook.grade_cells
    yield "solution", notebook.solution_cells
    yield "task", notebook.task_cells


def _renamed(database, unit: str, notebook: NotebookNode, there: dict, wanted: dict) -> list[tuple[str, str]]:
    """Return (old, new) for each cell that has a new name but the same id in the notebook."""
    rows = database.execute(select(NAMES.c.cell, NAMES.c.identity).where(NAMES.c.unit == unit)).all()
    before = {identity: name for name, identity in rows if identity}
    now = {name for _, name in wanted}
    gone = {name for _, name in there if name not in now}
    old = {name for _, name in there}
    found = []
    for cell in notebook.cells:
        name, earlier = cell.metadata.get("nbgrader", {}).get("grade_id"), before.get(cell.get("id"))
        if name in now and name not in old and earlier in gone:
            found.append((earlier, name))
            gone.discard(earlier)
    return found


def _remove(database, unit: str, cell: BaseCell) -> int:
    """Remove a cell; return how many manual entries were set aside."""
    kept = 0
    for grade in list(cell.grades):
        if grade.manual_score is not None or grade.extra_credit:
            values = {"manual_score": grade.manual_score, "extra_credit": grade.extra_credit}
            kept += _put_aside(database, unit, cell.name, grade.notebook, values)
        database.delete(grade)
    for comment in list(cell.comments):
        if comment.manual_comment:
            kept += _put_aside(database, unit, cell.name, comment.notebook, {"comment": comment.manual_comment})
        database.delete(comment)
    database.flush()
    database.delete(cell)
    return kept


def _put_aside(database, unit: str, name: str, notebook: SubmittedNotebook, values: dict) -> int:
    key = {"unit": unit, "cell": name, "student": notebook.student.id}
    where = [ASIDE.c[column] == value for column, value in key.items()]
    if database.execute(select(ASIDE.c.cell).where(*where)).first() is None:
        database.execute(insert(ASIDE).values(**key))
    database.execute(update(ASIDE).where(*where).values(**values))
    return 1


def _add(database, unit: str, notebook: Notebook, kind: str, name: str, cell_type: str, points: float | None) -> int:
    """Add a cell, also to existing submissions; return how many manual entries were restored."""
    graded = {} if kind == "solution" else {"max_score": points, "cell_type": cell_type}
    cell = KINDS[kind](name=name, notebook=notebook, **graded)
    database.add(cell)
    rows = database.execute(select(ASIDE).where(ASIDE.c.unit == unit, ASIDE.c.cell == name)).mappings().all()
    aside, back = {row["student"]: row for row in rows}, 0
    for submission in notebook.submissions:
        row = aside.get(submission.student.id)
        if kind != "solution":
            marks = (row["manual_score"], row["extra_credit"]) if row else (None, None)
            grade = Grade(cell=cell, notebook=submission, manual_score=marks[0], extra_credit=marks[1])
            grade.needs_manual_grade = marks[0] is None
            database.add(grade)
            back += marks != (None, None)
        if kind != "grade":
            words = row["comment"] if row else None
            database.add(Comment(cell=cell, notebook=submission, manual_comment=words))
            back += bool(words)
    columns = {"comment": None} if kind == "solution" else {"manual_score": None, "extra_credit": None}
    columns = {**columns, "comment": None} if kind == "task" else columns
    where = (ASIDE.c.unit == unit, ASIDE.c.cell == name)
    database.execute(update(ASIDE).where(*where).values(**columns))
    empty = [ASIDE.c[column].is_(None) for column in ("manual_score", "extra_credit", "comment")]
    database.execute(delete(ASIDE).where(*where, *empty))
    return back


def _sources(database, notebook: Notebook, wanted: NotebookNode) -> None:
    """Update nbgrader's own copy of the cells, which its other commands read."""
    there = {cell.name: cell for cell in notebook.source_cells}
    for cell in wanted.cells:
        marks = cell.metadata.get("nbgrader", {})
        locked = not marks.get("solution") and bool(marks.get("grade") or marks.get("locked"))
        if not (marks.get("grade") or marks.get("solution") or marks.get("task") or locked):
            continue
        values = {
            "cell_type": cell.cell_type,
            "locked": locked,
            "source": cell.source,
            "checksum": marks.get("checksum"),
        }
        entry = there.pop(marks["grade_id"], None)
        if entry is None:
            database.add(SourceCell(name=marks["grade_id"], notebook=notebook, **values))
        else:
            for name, value in values.items():
                if getattr(entry, name) != value:
                    setattr(entry, name, value)
    for entry in there.values():
        database.delete(entry)


def _note_names(database, unit: str, notebook: NotebookNode) -> None:
    wanted = {
        str(cell.metadata.nbgrader.grade_id): str(cell.get("id", "")) for cell in notebook.cells if any(_kinds(cell))
    }
    rows = dict(database.execute(select(NAMES.c.cell, NAMES.c.identity).where(NAMES.c.unit == unit)).all())
    for name, identity in wanted.items():
        if name not in rows:
            database.execute(insert(NAMES).values(unit=unit, cell=name, identity=identity))
        elif rows[name] != identity:
            database.execute(update(NAMES).where(NAMES.c.unit == unit, NAMES.c.cell == name).values(identity=identity))
    for name in rows.keys() - wanted.keys():
        if not any(other == rows[name] for other in wanted.values()):
            continue  # the cell may come back under its own name, and its entries are still set aside
        database.execute(delete(NAMES).where(NAMES.c.unit == unit, NAMES.c.cell == name))
