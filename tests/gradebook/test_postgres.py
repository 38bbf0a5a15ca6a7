"""PostgreSQL in place of SQLite, by nbgrader's own setting. Runs where a server and a driver are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

import nbformat
import pytest
from test_migration import check_all

from autograder.cli import main
from autograder.gradebook.gradebook_migration import prepare
from autograder.running.sandbox import preflight

ROOT = Path(__file__).parents[2]
UNIT = "01_projections"
BINARIES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """The address of a database on a server of our own."""
    pytest.importorskip("psycopg", reason="no driver: pip install psycopg[binary]")
    if BINARIES is None or not (BINARIES / "initdb").exists():
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    folder = tmp_path_factory.mktemp("postgres")
    as_user: dict[str, object] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("no user postgres here")
        for parent in (folder, *folder.parents[:2]):
            os.chmod(parent, 0o755)
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data, quiet = folder / "data", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    init = [BINARIES / "initdb", "-D", data, "-U", "course", "--auth=trust", "--no-sync"]
    subprocess.run(init, check=True, cwd=folder, **quiet, **as_user)
    server = [BINARIES / "pg_ctl", "-D", data, "-w", "-o", f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"]
    subprocess.run([*server, "-l", folder / "log", "start"], check=True, cwd=folder, **quiet, **as_user)
    yield f"postgresql://course@127.0.0.1:{port}/postgres"
    subprocess.run([BINARIES / "pg_ctl", "-D", data, "-m", "immediate", "stop"], cwd=folder, **quiet, **as_user)


@pytest.mark.skipif(preflight() is not None, reason=str(preflight()))
def test_a_class_is_recorded_in_postgresql(database, tmp_path, capsys):
    from nbgrader.api import Gradebook

    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    with open(tmp_path / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write(f"\nc.CourseDirectory.db_url = {database!r}\n")
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name / UNIT, tmp_path / name / UNIT)
    for student, source in (("anna", "solutions"), ("ben", "notebooks")):
        path = tmp_path / "grading" / "submitted" / student / UNIT / f"{UNIT}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(nbformat.read(ROOT / source / UNIT / f"{UNIT}.ipynb", as_version=4), path)
    assert main(["--course", str(tmp_path), "grade"]) == 0
    with Gradebook(database, "attention") as gradebook:
        found = {s.student.id: (s.score, s.max_score) for s in gradebook.assignment_submissions(UNIT)}
    assert found["anna"][0] == found["anna"][1] > 0 and found["ben"][0] == 0
    assert not (tmp_path / "grading" / "gradebook.db").exists()
    capsys.readouterr()
    assert main(["--course", str(tmp_path), "grade"]) == 0
    assert "2 of 2 were graded before" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:Object of type <Submitted")
def test_cells_come_and_go_in_postgresql_too(database):
    from nbgrader.api import Gradebook

    with Gradebook(database, "attention") as gradebook:
        prepare(gradebook)
        check_all(gradebook)
