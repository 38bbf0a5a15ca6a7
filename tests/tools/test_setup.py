"""The set-up: what it installs, and that it trusts no environment that it has not looked at."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import bubblewrap
import lab
import make_environment
from autograder.commands import doctor
from autograder.handout import course_map
from check_installed_files import installed

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Distribution on PyPI -> package on conda-forge, where the names differ.
CONDA = {"torch": "pytorch-cpu"}


def requirements(*extras: str) -> list[Requirement]:
    texts = list(PROJECT["dependencies"])
    for extra in extras:
        texts += PROJECT["optional-dependencies"][extra]
    return [Requirement(text) for text in texts]


def test_conda_and_pip_ask_for_the_same():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    conda = {text for text in listed if isinstance(text, str)} - {"pip"}
    pip = {f"{CONDA.get(r.name, r.name)}{r.specifier}" for r in requirements("grading")}
    assert conda == pip | {f"python{PROJECT['requires-python']}"}
    assert {"pip": ["-e ."]} in listed


def test_every_dependency_is_pinned_to_a_tested_version_within_its_range():
    pins = doctor.tested_versions()
    for requirement in requirements(*PROJECT["optional-dependencies"]):
        version = pins.get(requirement.name)
        assert version, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(version), f"{requirement} does not allow the tested {version}"


def test_nbgrader_is_of_the_versions_whose_private_names_are_known():
    (nbgrader,) = [requirement for requirement in requirements("grading") if requirement.name == "nbgrader"]
    assert nbgrader.specifier.contains("0.9.99") and not nbgrader.specifier.contains("0.10.0")


def before_set_up(*words: str | Path) -> subprocess.CompletedProcess:
    """Run a command in a Python that has nothing installed."""
    line = [sys.executable, "-S", "-m", "autograder", *map(str, words)]
    return subprocess.run(line, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)


COMMANDS = ["check 3", "grade", "release --check", "report", "bundle", "collect 3 x.zip", "export --format canvas"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_before_the_set_up_says_what_to_run(command):
    done = before_set_up(*command.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "is not installed for" in done.stderr and "make setup" in done.stderr and "fault" not in done.stderr


@pytest.mark.parametrize("package", ["nbgrader", "torch"])
def test_a_package_that_is_not_there_is_named_with_the_remedy(package):
    words = "release 4 --check" if package == "nbgrader" else "check 4"
    code = f"""
import sys
from autograder.cli import main

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Gone())
sys.exit(main({words.split()}))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"autograder: {package} is not installed for {sys.executable}; run `make setup`")


def test_doctor_runs_before_the_set_up_and_names_what_is_missing():
    done = before_set_up("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    for package in ("numpy", "torch", "nbgrader"):
        assert any(package in line and "not installed" in line for line in done.stdout.splitlines())
    assert "make lab" in done.stdout and "make setup" in done.stdout


def test_doctor_looks_at_the_course_folder_that_is_named(tmp_path):
    (tmp_path / "nbgrader_config.py").write_text("")
    (tmp_path / "grading").mkdir()
    (tmp_path / "grading" / "gradebook.db").write_bytes(b"rubbish" * 500)
    done = before_set_up("--course", tmp_path, "doctor")
    assert done.stderr == f"autograder: course folder: {tmp_path}\n"
    found = {finding.what: finding for finding in doctor.findings(tmp_path)}
    assert str(tmp_path) in found["notebooks"].found and not found["notebooks"].ok
    assert "damaged" in found["gradebook"].remedy
    assert "course folder" in {finding.what for finding in doctor.findings(None)}


@pytest.mark.skipif(os.name != "posix", reason="only there files have modes for others")
def test_doctor_says_who_else_can_read_the_class(tmp_path):
    def found() -> doctor.Condition:
        return next(each for each in doctor.findings(tmp_path) if each.what == "grading/")

    grading = tmp_path / "grading"
    grading.mkdir(mode=0o755)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    assert not found().ok and f"chmod -R o= {grading}" in found().remedy
    tmp_path.chmod(0o750)
    assert found().ok
    tmp_path.chmod(0o755)
    grading.chmod(0o750)
    assert found().ok


def test_the_tested_versions_run_on_the_oldest_python_that_is_promised():
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    pins = doctor.tested_versions()
    for distribution in metadata.distributions():
        if pins.get(distribution.name.lower()) == distribution.version.partition("+")[0]:
            wanted = SpecifierSet(distribution.metadata.get("Requires-Python") or "")
            assert wanted.contains(oldest), f"{distribution.name} {distribution.version} wants Python {wanted}"


def test_constraints_hold_for_any_build():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert all(line.count("==") == 1 and "+" not in line and " " not in line for line in lines)


def test_an_old_python_can_read_the_file_that_turns_it_away():
    source = (ROOT / "tools" / "bootstrap.py").read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 5))
    assert "3.11" in source


def make_distribution(site: Path, name: str, content: str = "x = 1\n") -> Path:
    information = site / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    module = site / f"{name}.py"
    module.write_text(content)
    rows = [f"{name}.py,sha256=abc,{len(content)}", f"__pycache__/{name}.pyc,,", f"{name}-1.0.dist-info/RECORD,,"]
    (information / "RECORD").write_text("\n".join(rows) + "\n")
    return module


def test_the_probe_sees_what_is_lost_cut_short_or_half_installed(tmp_path):
    for name in ("whole", "lost", "short", "half"):
        make_distribution(tmp_path, name)
    assert installed(str(tmp_path)) == ([f"{name}-1.0" for name in ("half", "lost", "short", "whole")], [])
    (tmp_path / "lost.py").unlink()
    (tmp_path / "short.py").write_text("x")
    (tmp_path / "half-1.0.dist-info" / "RECORD").unlink()
    found, problems = installed(str(tmp_path))
    assert found == ["lost-1.0", "short-1.0", "whole-1.0"]
    assert [problem.split()[0] for problem in problems] == ["half-1.0", "lost-1.0", "short-1.0"]
    assert installed(str(tmp_path / "nowhere")) == ([], [])


@pytest.fixture
def course(tmp_path, monkeypatch):
    """The set-up, working in an empty folder."""
    monkeypatch.setattr(make_environment, "ROOT", tmp_path)
    monkeypatch.setattr(make_environment, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(make_environment, "STAMP", tmp_path / ".venv" / "attention-course.json")
    monkeypatch.setattr(make_environment, "LOG", tmp_path / ".venv" / "setup.log")
    monkeypatch.setattr(make_environment, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("")
    return tmp_path


def stamp(course: Path, **changes) -> dict:
    content = {
        "root": str(course),
        "requirements": make_environment.requirements_hash(),
        "extras": [],
        "python": [3, 11, 0],
    }
    return {**content, "found": ["whole-1.0"], **changes}


def test_an_environment_is_used_only_if_nothing_speaks_against_it(course, monkeypatch):
    look = {"python": [3, 11, 0], "found": ["whole-1.0"], "problems": []}
    monkeypatch.setattr(make_environment, "probe", lambda: look)
    assert make_environment.find_problems({}, set()) == ["there is none yet"]
    (course / ".venv").mkdir()
    assert make_environment.find_problems({}, set()) == ["an earlier set-up did not finish"]
    assert make_environment.find_problems(stamp(course), set()) == []
    assert make_environment.find_problems(stamp(course, extras=["grading", "test"]), {"grading"}) == []
    assert make_environment.find_problems(stamp(course), {"grading"}) != []
    assert make_environment.find_problems(stamp(course, root="/elsewhere"), set()) != []
    assert make_environment.find_problems(stamp(course, requirements="older"), set()) != []
    assert make_environment.find_problems(stamp(course, found=["whole-1.0", "gone-1.0"]), set()) == ["gone-1.0 is gone"]
    assert make_environment.find_problems(stamp(course, python=[3, 11, 1]), set()) != []
    look["problems"] = ["whole-1.0 is only half installed"]
    assert make_environment.find_problems(stamp(course), set()) == look["problems"]
    monkeypatch.setattr(make_environment, "probe", lambda: None)
    assert make_environment.find_problems(stamp(course), set()) == ["its Python does not start"]


def test_a_package_that_lost_files_is_installed_again_and_no_other(monkeypatch):
    problems = ["tqdm-4.70.1 has lost or changed tqdm/std.py", "attention_course-0.1.0 is only half installed"]
    monkeypatch.setattr(make_environment, "probe", lambda: {"problems": problems})
    lines = []
    monkeypatch.setattr(make_environment, "pip", lambda words, lock: lines.append(words))
    make_environment.reinstall_damaged(0)
    assert lines == [["install", "--ignore-installed", "--no-deps", "tqdm==4.70.1"]]


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_damaged_stamp_is_none(course, content):
    (course / ".venv").mkdir()
    make_environment.STAMP.write_text(content)
    assert make_environment.read_stamp() == {}


@pytest.mark.skipif(os.name == "nt", reason="looks for bin/python")
def test_whatever_stands_in_the_place_is_replaced_by_an_environment_that_runs(course):
    (course / ".venv" / "bin").mkdir(parents=True)
    (course / ".venv" / "bin" / "python").symlink_to("/nowhere/python")
    assert not make_environment.runs() and make_environment.probe() is None
    make_environment.create()
    assert make_environment.runs()


def test_a_failed_installation_leaves_no_stamp_and_says_one_line(course, monkeypatch, capsys):
    def fail(extras, lock):
        raise make_environment.SetupFailed("pip failed (no network)")

    monkeypatch.setattr(make_environment, "create", lambda: (course / ".venv").mkdir(exist_ok=True))
    monkeypatch.setattr(make_environment, "install", fail)
    assert make_environment.main(["--run", "-c", "print('never')"]) == 2
    assert not make_environment.STAMP.exists()
    assert capsys.readouterr().err.splitlines()[-1] == "set-up: pip failed (no network)"


@pytest.mark.skipif(os.name == "nt", reason="uses flock")
def test_a_second_set_up_waits_for_the_first(course):
    code = "import make_environment, sys, pathlib; make_environment.ROOT = pathlib.Path(sys.argv[1])\n"
    code += "with make_environment.one_at_a_time(): print('in')"
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    with make_environment.one_at_a_time():
        second = subprocess.Popen(
            [sys.executable, "-c", code, str(course)], stderr=subprocess.PIPE, text=True, env=paths
        )
        assert "waiting" in second.stderr.readline()
        assert second.poll() is None
    assert second.wait(timeout=60) == 0


def test_without_bubblewrap_the_line_to_run_is_named_and_nothing_fails(monkeypatch):
    said = []
    monkeypatch.setattr(bubblewrap.sys, "platform", "linux")
    monkeypatch.setattr(bubblewrap, "become_root", lambda: None)
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: "/usr/bin/dnf" if name == "dnf" else None)
    assert bubblewrap.ensure(said.append) is False
    assert said == [
        "bubblewrap is not installed; grading other people's work needs it. Run: sudo dnf install bubblewrap"
    ]
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    assert bubblewrap.ensure(said.append) is False
    assert "package manager" in said[-1]


def test_bubblewrap_is_installed_where_nobody_need_be_asked(monkeypatch):
    ran, present = [], {"apt-get"}

    def run(command):
        ran.append(command)
        present.add("bwrap")
        return True

    monkeypatch.setattr(bubblewrap.sys, "platform", "linux")
    monkeypatch.setattr(bubblewrap, "become_root", lambda: ["sudo", "-n"])
    monkeypatch.setattr(bubblewrap, "run", run)
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: name if name in present else None)
    assert bubblewrap.ensure(lambda line: None) is True
    assert ran[-1][:4] == ["sudo", "-n", "apt-get", "install"] and ran[-1][-1] == "bubblewrap"


def test_jupyterlab_opens_on_the_students_notebooks_without_news_and_panels():
    command = lab.command(["--no-browser"])
    assert f"--ServerApp.root_dir={ROOT / 'notebooks'}" in command and command[-1] == "--no-browser"
    folder = ROOT / "tools" / "jupyter" / "labconfig"
    page = json.loads((folder / "page_config.json").read_text(encoding="utf-8"))
    assert page["disabledExtensions"]["@jupyter/nbgrader:formgrader"] is True
    assert "@jupyter/nbgrader:validate-assignment" not in page["disabledExtensions"]
    settings = json.loads((folder / "default_setting_overrides.json").read_text(encoding="utf-8"))
    assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_jupyterlab_opens_on_the_map_in_our_style_unless_told_otherwise(tmp_path, monkeypatch):
    command = lab.command([])
    assert f"--LabApp.default_url=/lab/tree/{lab.START}" in command and lab.START == course_map.START_PAGE
    assert any("custom" in word and "static_custom_path" in word for word in command)
    theirs = ["--ServerApp.root_dir=/elsewhere", "--LabApp.default_url=/lab"]
    command = lab.command(theirs)
    assert [word for word in command if "root_dir" in word or "default_url" in word] == theirs
    monkeypatch.setattr(lab, "ROOT", tmp_path)  # notebooks alone, as they may be handed out
    assert not [word for word in lab.command([]) if "default_url" in word or "custom" in word]


def test_continuous_integration_runs_make_test():
    script = ROOT / ".ci" / "run"
    assert "make test" in script.read_text(encoding="utf-8")
    assert os.name == "nt" or os.access(script, os.X_OK)


def test_doctor_looks_at_everything_and_names_a_remedy_for_what_is_missing(capsys):
    assert doctor.main() == 0
    text = capsys.readouterr().out
    for what in ("Python", "torch", "nbgrader", "sandbox", "GPU", "model", "notebooks", "gradebook", "Dask"):
        assert what in text
    assert doctor.main(as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(entry["ok"] or entry["remedy"] for entry in found)


def test_elsewhere_runs_what_runs_here():
    """GitHub's own machine runs the same script, on a Python that the project supports, with what the sandbox needs."""
    job = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]["test"]
    lines = [step.get("run", "").strip() for step in job["steps"]]
    assert ".ci/run" in lines and any("bubblewrap" in line for line in lines)
    version = next(step["with"]["python-version"] for step in job["steps"] if "python-version" in step.get("with", {}))
    assert version in SpecifierSet(PROJECT["requires-python"])


@pytest.mark.parametrize("name", ["right_answer_rejected", "sentence_wrong"])
def test_a_report_asks_for_what_is_needed_to_look_into_it(name):
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text(encoding="utf-8"))
    fields = [field["id"] for field in form["body"]]
    assert form["name"] and form["description"] and len(set(fields)) == len(fields) >= 3
    assert sum(field.get("validations", {}).get("required", False) for field in form["body"]) >= 3


def test_a_set_up_that_nobody_watches_names_its_large_steps(capsys):
    progress = make_environment.Progress()
    for line in (
        "Collecting torch (from attention-course==0.1.0)",
        "  Downloading numpy-2.4.0-cp313-cp313-manylinux_2_28_x86_64.whl (16.1 MB)",
        "  Downloading https://host.example/whl/torch-2.13.0-cp313-cp313-manylinux_2_28_x86_64.whl (191.3 MB)",
        "Installing collected packages: nine, lives, torch",
    ):
        progress.read(line)
    assert capsys.readouterr().err == "set-up: downloading torch, 191.3 MB\nset-up: installing 3 packages\n"
