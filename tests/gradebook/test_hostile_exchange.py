"""nbgrader's exchange against those who make folders there by hand: as root, as an ordinary user, on a shared account."""

from __future__ import annotations

import datetime
import logging
import os
import pwd
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange.default import ExchangeCollect
from nbgrader.utils import get_username, notebook_hash, parse_utc

import warm
from autograder.gradebook.gradebook_writer import Gradebook
from autograder.gradebook.health_check import load_config
from autograder.gradebook.nbgrader_exchange import Collect, Refused, ReleaseFeedback, look_at, opened, read
from autograder.gradebook.submission_times import read_timestamp
from hostile.exchange import FILE, PLANTED, RELEASE, ROOT, SECRET, UNIT, Exchange, Planted
from lanes import nightly

ROOT_RUNS = os.getuid() == 0
#: Accounts that Debian has, and a stranger's notebook that differs from the release.
ATTACKER, VICTIM, HONEST, TEACHER = "games", "daemon", "lp", "man"
OTHER = RELEASE.read_bytes() + b"\n"
DAMAGED = RELEASE.read_bytes()[:500]
WAYS = ("as root", "as an ordinary user", "one account for all")


@dataclass
class World:
    """A course, an exchange, and the account that collects."""

    folder: Path
    exchange: Exchange
    teacher: str | None
    check_owner: bool

    @property
    def course(self) -> Path:
        return self.folder / "course"

    def run(self, kind: type = Collect, **settings: object) -> str:
        """What nbgrader logs while it collects, or releases, as the teacher."""
        log = self.course / "grading" / "log.txt"
        if self.teacher is None:
            self._start(kind, log, settings)
            return log.read_text()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                account = pwd.getpwnam(self.teacher)
                os.setgroups([])
                os.setgid(account.pw_gid)
                os.setuid(account.pw_uid)
                self._start(kind, log, settings)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return log.read_text()

    def _start(self, kind: type, log: Path, settings: dict[str, object]) -> None:
        config = load_config(self.course)
        config.Exchange.root = str(self.folder / "exchange")
        config.ExchangeCollect.check_owner = self.check_owner
        config.ExchangeCollect.update(settings)
        coursedir = CourseDirectory(config=config)
        coursedir.assignment_id = UNIT
        logger = logging.Logger("exchange")
        logger.addHandler(logging.FileHandler(log, mode="w"))
        kind(coursedir=coursedir, config=config, log=logger).start()

    def place(self, student: str) -> Path:
        return self.course / "grading" / "submitted" / student / UNIT

    def collected(self) -> dict[str, list[str]]:
        submitted = self.course / "grading" / "submitted"
        found = submitted.glob("*/*/*")
        names: dict[str, list[str]] = {}
        for path in sorted(found):
            assert path.is_file() and not path.is_symlink()
            names.setdefault(path.parts[-3], []).append(path.name)
        return names


@pytest.fixture(scope="module")
def gradebook(tmp_path_factory):
    path = tmp_path_factory.mktemp("grading") / "gradebook.db"
    with Gradebook(f"sqlite:///{path}", "attention") as book:
        book.add_assignment(UNIT, duedate="2026-01-02 00:00:00 UTC")
    return path


def build(folder: Path, gradebook: Path, way: str) -> World:
    folder.chmod(0o755)
    course, inbound = folder / "course", folder / "exchange" / "attention" / "inbound"
    (course / "grading").mkdir(parents=True)
    inbound.mkdir(parents=True)
    for kind in ("notebooks", "solutions"):
        shutil.copytree(ROOT / kind / UNIT, course / kind / UNIT)
    (course / "solutions").chmod(0o700)
    shutil.copy(ROOT / "nbgrader_config.py", course)
    shutil.copy(gradebook, course / "grading")
    owners = way != "one account for all"
    teacher = TEACHER if way == "as an ordinary user" else None
    if teacher:
        account = pwd.getpwnam(teacher)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, account.pw_uid, account.pw_gid)
    inbound.parents[1].chmod(0o777)
    inbound.chmod(0o2733)
    return World(folder, Exchange(inbound, course, ATTACKER, VICTIM, owners), teacher, owners)


@pytest.fixture(params=WAYS)
def world(request, gradebook) -> Iterator[World]:
    if request.param != WAYS[-1] and not ROOT_RUNS:
        pytest.skip("only root can make folders that others own")
    with tempfile.TemporaryDirectory() as folder:
        yield build(Path(folder), gradebook, request.param)


@pytest.fixture
def shared(gradebook, tmp_path) -> World:
    return build(tmp_path, gradebook, WAYS[-1])


@pytest.mark.parametrize("attack", nightly(PLANTED), ids=[attack.name for attack in PLANTED])
def test_who_makes_a_folder_by_hand_gets_and_costs_nothing(world, attack: Planted):
    if attack.owned and not world.exchange.owners:
        pytest.skip("not prevented where all share one account")
    world.exchange.hand_in(HONEST)
    attack.plant(world.exchange)
    said = world.run()
    lines = [line for line in said.splitlines() if attack.says and attack.says in line]
    assert len(lines) == bool(attack.says), said
    assert not set(said) & set("\x1b\x07\u202e")
    all_three = [FILE, "submission_secret.txt", "timestamp.txt"]
    found = world.collected()
    assert found.pop(HONEST) == all_three
    assert set(found) == ({ATTACKER} if attack.taken else set())
    if attack.taken:
        kept = all_three if not attack.says else [FILE, "timestamp.txt"]
        assert found[ATTACKER] == kept
        assert (world.place(ATTACKER) / FILE).read_bytes() == RELEASE.read_bytes()


def test_the_solutions_are_not_published_to_who_links_them(world):
    world.exchange.hand_in(HONEST)
    next(attack for attack in PLANTED if attack.name == "a linked notebook").plant(world.exchange)
    world.run()
    for student in (HONEST, ATTACKER):
        page = world.course / "grading" / "feedback" / student / UNIT / f"{UNIT}.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"the page of {student}")
    world.run(ReleaseFeedback)
    pages = world.folder / "exchange" / "attention" / "feedback"
    assert {path.name: path.read_text() for path in pages.iterdir()} == {
        f"{notebook_hash(secret=SECRET, notebook_id=UNIT)}.html": f"the page of {HONEST}"
    }


def test_nbgraders_own_collector_takes_the_solutions(shared):
    next(attack for attack in PLANTED if attack.name == "a linked notebook").plant(shared.exchange)
    shared.run(ExchangeCollect)
    taken = (shared.place(ATTACKER) / FILE).read_bytes()
    assert taken == (shared.course / "solutions" / UNIT / FILE).read_bytes(), "else the attacks above prove nothing"


def test_a_name_of_somebody_else_takes_nothing_from_them(world):
    if not world.exchange.owners:
        pytest.skip("not prevented where all share one account")
    world.exchange.hand_in(VICTIM, OTHER)
    world.exchange.hand_in(VICTIM, owner=ATTACKER)
    said = world.run(update=True)
    assert (world.place(VICTIM) / FILE).read_bytes() == OTHER
    assert f"owned by {ATTACKER}, not by {VICTIM}" in said


@pytest.mark.parametrize("owner", [VICTIM, ATTACKER])
def test_a_folder_that_takes_anothers_name_between_the_check_and_the_reading_is_refused(shared, owner):
    shared.exchange.owners = ROOT_RUNS
    checked = shared.exchange.hand_in(VICTIM)
    other = shared.exchange.hand_in(ATTACKER, OTHER, owner=owner)
    with opened(shared.exchange.inbound) as inbound:
        arrived = look_at(inbound, checked.name, VICTIM, [FILE], check_owner=ROOT_RUNS)
        assert read(inbound, arrived, FILE) == RELEASE.read_bytes()
        checked.rename(checked.with_name("aside"))
        other.rename(checked)
        for file in (FILE, "submission_secret.txt"):
            with pytest.raises(Refused, match="another folder took its name"):
                read(inbound, arrived, file)


def test_an_ordinary_user_is_believed_to_be_who_owns_the_folder(gradebook, tmp_path):
    world = build(tmp_path, gradebook, WAYS[-1])
    world.check_owner = True
    world.exchange.hand_in(get_username())
    world.exchange.hand_in(VICTIM if get_username() != VICTIM else HONEST)
    world.run()
    assert set(world.collected()) == {get_username()}


def test_the_time_is_the_file_systems(world):
    folder = world.exchange.hand_in(HONEST)
    (folder / "timestamp.txt").write_text("1990-01-01 00:00:00 UTC")
    for path in (folder / FILE, folder / "timestamp.txt", folder):
        os.utime(path, (0, 0))
    words = world.run()
    assert "lp: the folder's name has another time than the file system" in words
    said = read_timestamp(world.place(HONEST) / "timestamp.txt")
    changed = max(os.stat(path).st_ctime_ns // 1_000 for path in (folder, folder / FILE))
    assert (said - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1) == changed


def test_who_hands_in_by_the_command_is_asked_nothing(shared):
    now = datetime.datetime.now(datetime.UTC)
    folder = shared.exchange.hand_in(HONEST)
    folder.rename(folder.with_name(f"{HONEST}+{UNIT}+{now:%Y-%m-%d %H:%M:%S.%f} UTC+abc"))
    assert "file system" not in shared.run() and HONEST in shared.collected()


def test_a_notebook_that_is_written_over_is_as_late_as_that(shared):
    folder = shared.exchange.hand_in(HONEST)
    before = os.stat(folder).st_ctime_ns
    while os.stat(folder / FILE).st_ctime_ns == before or (folder / FILE).read_bytes() != OTHER:
        (folder / FILE).write_bytes(OTHER)
    os.utime(folder / FILE, (0, 0))
    shared.run()
    said = read_timestamp(shared.place(HONEST) / "timestamp.txt")
    assert said > parse_utc(datetime.datetime.fromtimestamp(before / 1e9, datetime.UTC))


def test_of_several_the_last_that_can_be_graded_counts(world):
    for content in (RELEASE.read_bytes(), OTHER, DAMAGED):
        world.exchange.hand_in(HONEST, content)
    said = world.run()
    assert (world.place(HONEST) / FILE).read_bytes() == OTHER
    assert len([line for line in said.splitlines() if "passed over" in line and "cut off" in line]) == 1


def test_a_damaged_one_is_taken_where_there_is_no_other_and_stays_behind_a_good_one(shared):
    shared.exchange.hand_in(HONEST, DAMAGED)
    assert "taken as it is, without points" in shared.run()
    shared.exchange.hand_in(HONEST, OTHER)
    shared.run(update=True)
    assert (shared.place(HONEST) / FILE).read_bytes() == OTHER
    for folder in shared.exchange.made:
        shutil.rmtree(folder)
    shared.exchange.hand_in(HONEST, DAMAGED)
    assert "the earlier one of lp stays" in shared.run(update=True)
    assert (shared.place(HONEST) / FILE).read_bytes() == OTHER


def test_nbgraders_options_work(shared):
    shared.exchange.hand_in(HONEST)
    shared.run()
    shared.exchange.hand_in(HONEST, OTHER)
    assert "use --update" in shared.run()
    assert (shared.place(HONEST) / FILE).read_bytes() == RELEASE.read_bytes()
    shared.run(update=True)
    assert (shared.place(HONEST) / FILE).read_bytes() == OTHER
    assert (shared.course / "grading/replaced" / HONEST / UNIT / "1" / FILE).read_bytes() == RELEASE.read_bytes()


def test_a_time_that_the_instructor_wrote_holds_until_there_is_something_new(shared):
    shared.exchange.hand_in(HONEST)
    shared.run()
    note = shared.place(HONEST) / "timestamp.txt"
    note.write_text("2026-01-01 00:00:00 UTC")
    assert "No newer submission" in shared.run(update=True)
    assert note.read_text() == "2026-01-01 00:00:00 UTC"
    shared.exchange.hand_in(HONEST, OTHER)
    shared.run(update=True)
    assert note.read_text() != "2026-01-01 00:00:00 UTC"


def test_before_the_due_date(shared):
    shared.exchange.hand_in(HONEST)
    first = parse_utc(datetime.datetime.fromtimestamp(os.stat(shared.exchange.made[0]).st_ctime, datetime.UTC))
    with Gradebook(f"sqlite:///{shared.course}/grading/gradebook.db", "attention") as book:
        book.update_or_create_assignment(UNIT, duedate=first + datetime.timedelta(microseconds=500))
    while (
        os.stat(shared.exchange.hand_in(HONEST, OTHER)).st_ctime_ns
        < os.stat(shared.exchange.made[0]).st_ctime_ns + 10**7
    ):
        shutil.rmtree(shared.exchange.made.pop())
    shared.run(update=True)
    assert (shared.place(HONEST) / FILE).read_bytes() == OTHER
    shared.run(before_duedate=True)
    assert (shared.place(HONEST) / FILE).read_bytes() == RELEASE.read_bytes()


def test_a_lone_notebook_of_another_name_is_taken_under_the_right_one(shared):
    folder = shared.exchange.hand_in(HONEST)
    (folder / FILE).rename(folder / "mine <b>.ipynb")
    assert f"its only notebook is taken as {FILE}" in shared.run()
    assert shared.collected()[HONEST] == [FILE, "submission_secret.txt", "timestamp.txt"]


def test_an_inbound_folder_of_somebody_elses_is_said(world):
    if not world.exchange.owners:
        pytest.skip("only root can make folders that others own")
    assert "who can rename and remove" not in world.run()
    world.exchange.give(world.exchange.inbound, ATTACKER)
    world.exchange.inbound.chmod(0o777)
    assert f"is owned by {ATTACKER}, who can rename and remove" in world.run()


def test_a_flood_of_folders_is_no_flood_of_lines(shared):
    for number in range(120):
        (shared.exchange.inbound / f"<{number}>+{UNIT}+t+x").touch()
        (shared.exchange.inbound / f"student{number}+{UNIT}+t+x").symlink_to(f"nowhere{number}")
    said = shared.run()
    assert len(said.splitlines()) < 60 and "and 119 more" in said


def test_the_command_and_the_formgraders_button_use_it(shared):
    next(attack for attack in PLANTED if attack.name == "a dangling folder").plant(shared.exchange)
    shared.exchange.hand_in(HONEST)
    settings = f'c.Exchange.root = "{shared.folder}/exchange"\nc.ExchangeCollect.check_owner = False\n'
    with open(shared.course / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write(settings)
    done = warm.command(shared.course, "nbgrader", "collect", UNIT)
    assert done.returncode == 0 and "no folder but a link" in done.stderr, done.stderr
    assert set(shared.collected()) == {HONEST}
    shared.exchange.hand_in(HONEST, OTHER)
    result = NbGraderAPI(config=load_config(shared.course)).collect(UNIT)
    assert result["success"] and "Updating submission: lp" in result["log"]
    assert (shared.place(HONEST) / FILE).read_bytes() == OTHER
