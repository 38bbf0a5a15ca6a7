"""What a hostile submission is, and the notebook or file that it becomes."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from asked import points_of
from autograder.commands.demo import _answers

ROOT = Path(__file__).resolve().parents[2]
#: Every file and process that an attack leaves behind carries this word, so that a test can look for it.
MARK = "hostile-mark"
#: Stands in the files that no submission may read.
CANARY = "canary-4f1d"


@dataclass(frozen=True)
class Attack:
    """A submission that does not play fair, and what it is due.

    tries: one sentence. unit: the unit that it claims to be.
    cells: function -> source of its answer cell; all other functions of the unit are answered rightly if `solved`.
        `@CANARY@` stands for a folder of the host that no submission may see, `@MARK@` for the word above.
    top, end: a cell of its own before everything, and one behind it.
    edit: changes the notebook as JSON. place: puts something else than a notebook at the path, or beside it.
    earns: function -> points that are due; for the others nothing where attacked, and full marks where solved.
    verdicts: function -> verdicts of which one is due. says: words that some message must hold; never: and must not.
    uncontained: why the attack succeeds all the same; it is then an expected failure.
    """

    name: str
    tries: str
    unit: str = "03_masking"
    cells: Mapping[str, str] = field(default_factory=dict)
    top: str = ""
    end: str = ""
    solved: bool = True
    edit: Callable[[dict[str, Any]], None] | None = None
    place: Callable[[Path, bytes], None] | None = None
    earns: Mapping[str, float] = field(default_factory=dict)
    verdicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    says: str = ""
    never: tuple[str, ...] = (CANARY,)
    uncontained: str = ""

    def due(self) -> dict[str, float]:
        """function -> points."""
        return {
            name: self.earns.get(name, points if self.solved and name not in self.cells else 0)
            for name, points in points_of(self.unit).items()
        }

    def hand_in(self, path: Path, canary: Path) -> None:
        """Put the submission where a student's notebook should be."""
        path.parent.mkdir(parents=True)
        content = json.dumps(self.document(canary)).encode()
        (self.place or Path.write_bytes)(path, content)

    def document(self, canary: Path) -> dict[str, Any]:
        def filled(source: str) -> str:
            return textwrap.dedent(source).strip("\n").replace("@CANARY@", str(canary)).replace("@MARK@", MARK)

        answers = {**(solutions(self.unit) if self.solved else {}), **self.cells}
        document = json.loads(json.dumps(nbformat.read(notebook(self.unit), as_version=4)))
        for cell in document["cells"]:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id")
            if name in answers:
                cell["source"] = filled(answers[name])
        first = next(index for index, cell in enumerate(document["cells"]) if cell["cell_type"] == "code")
        if self.top:
            document["cells"].insert(first, own_cell(filled(self.top), "top-of-mine"))
        if self.end:
            document["cells"].append(own_cell(filled(self.end), "end-of-mine"))
        if self.edit:
            self.edit(document)
        return document


def own_cell(source: str, name: str, kind: str = "code", **more: Any) -> dict[str, Any]:
    cell = {"cell_type": kind, "id": name, "metadata": {}, "source": source, **more}
    return cell | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def notebook(unit: str, folder: str = "notebooks") -> Path:
    return ROOT / folder / unit / f"{unit}.ipynb"


def solutions(unit: str) -> dict[str, str]:
    return _answers(nbformat.read(notebook(unit, "solutions"), as_version=4))
