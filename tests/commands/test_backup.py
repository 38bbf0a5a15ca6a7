"""A class in one file: what a backup holds, and that a restored class exports the same marks."""

from __future__ import annotations

import json
import shutil
import zipfile

import pytest

from autograder.cli import main
from autograder.running.sandbox import preflight
from term import ROOT, RUBBISH, RULE, UNITS, Term

UNIT = UNITS[0]
pytestmark = [
    pytest.mark.skipif(preflight() is not None, reason=str(preflight())),
    pytest.mark.usefixtures("one_sandbox"),
]


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class of two, with other points, a rule for late work, a late notebook and a mark by hand."""
    root = tmp_path_factory.mktemp("course")
    term = Term(root, 2, 1)
    (root / "late_policy.py").write_text(RULE.format(0.25))
    (root / "nbgrader_config_local.py").write_text('c.AssignLatePenalties.plugin_class = "late_policy.Rule"\n')
    term.worth(UNIT, "embed", 3)
    term.do("release", UNIT)
    term.hand_in("s01", UNIT, embed=RUBBISH)
    term.hand_in("s02", UNIT)
    term.stamp("s02", UNIT, "2026-03-02 09:00 UTC")
    (root / "grading" / "submitted" / "s02" / UNIT / "timestamp.txt").write_text("2026-03-02 09:00 UTC")
    with term.gradebook() as book:
        book.update_or_create_assignment(UNIT, duedate="2026-03-01 09:00 UTC")
    term.do("grade")
    term.mark("s01", UNIT, "embed", 0.5)
    term.do("grade")
    term.do("export", "--format", "moodle")
    return term


def export(root) -> bytes:
    assert main(["--course", str(root), "export", "--format", "moodle"]) == 0
    return (root / "grading" / "report" / "moodle.csv").read_bytes()


@pytest.fixture
def fresh(tmp_path):
    """A course folder as it is cloned."""
    root = tmp_path / "fresh"
    shutil.copytree(ROOT / "notebooks", root / "notebooks")
    shutil.copytree(ROOT / "solutions", root / "solutions", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    shutil.copy(ROOT / "nbgrader_config.py", root)
    return root


def test_a_restored_class_exports_the_same_marks(graded, fresh, tmp_path, capsys):
    file = tmp_path / "backup.zip"
    assert main(["--course", str(graded.root), "backup", "--out", str(file)]) == 0
    assert file.stat().st_mode & 0o077 == 0
    assert main(["--course", str(fresh), "restore", str(file)]) == 0
    (graded.root / "grading" / "report" / "moodle.csv").unlink()
    assert export(fresh) == export(graded.root)
    kept = fresh / "grading" / "replaced" / "restore" / "solutions" / UNIT / f"{UNIT}.ipynb"
    assert kept.read_bytes() == (ROOT / "solutions" / UNIT / f"{UNIT}.ipynb").read_bytes()
    assert main(["--course", str(fresh), "grade"]) == 0
    assert "2 as before" in capsys.readouterr().out or export(fresh) == export(graded.root)
    assert main(["--course", str(fresh), "restore", str(file)]) == 2
    assert "there is a class already, and nothing was changed" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["other version", "another file", "cut", "damaged", "text", "nowhere"])
def test_a_file_that_is_no_backup_changes_nothing(graded, fresh, tmp_path, capsys, what):
    file = tmp_path / "backup.zip"
    assert main(["--course", str(graded.root), "backup", "--out", str(file)]) == 0
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    note = json.loads(content["backup.json"])
    if what == "other version":
        content["backup.json"] = json.dumps({**note, "version": "9.9.9"}).encode()
    elif what == "another file":
        content["../outside.py"] = content.pop("late_policy.py")
    elif what == "cut":
        content.pop("late_policy.py")
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    if what == "damaged":
        data = bytearray(file.read_bytes())
        data[200] ^= 255
        file.write_bytes(data)
    elif what in ("text", "nowhere"):
        file.write_text("no zip file") if what == "text" else file.unlink()
    capsys.readouterr()
    assert main(["--course", str(fresh), "restore", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"autograder: {file}: ")
    assert not (fresh / "grading").exists() and not (fresh / "late_policy.py").exists()


def test_an_archived_class_makes_room_for_the_next(graded, fresh, tmp_path, capsys):
    shutil.copytree(graded.root / "grading", fresh / "grading")
    old = tmp_path / "classes" / "2026"
    assert main(["--course", str(fresh), "archive", str(old)]) == 0
    assert (old / "grading" / "gradebook.db").is_file() and (old / "solutions" / UNIT / f"{UNIT}.ipynb").is_file()
    assert not (fresh / "grading").exists()
    assert main(["--course", str(fresh), "archive", str(old)]) == 2
    assert main(["--course", str(fresh), "archive", str(tmp_path / "new")]) == 2
    assert "there is no class to move" in capsys.readouterr().err
