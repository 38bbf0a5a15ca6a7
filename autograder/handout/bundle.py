"""Makes the archive for students: the notebooks, and what starts them on a machine with only Python.

It contains no judge, no solution and no hidden test; a notebook in which one is found is refused.
"""

from __future__ import annotations

import calendar
import gzip
import io
import json
import os
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import __version__
from ..course_folder import HOME
from ..exercises import unit_names
from ..records import NotUsable
from .course_map import START_PAGE, NoMap, course_map, start_page
from .release import out_of_step

TOP = "attention-course"
#: What is handed out besides the notebooks and the texts below.
FILES = ("LICENSE", "constraints.txt")
TOOLS = ("bootstrap.py", "make_environment.py", "bubblewrap.py", "check_installed_files.py", "lab.py", "update.py")
#: Folder of the original notebooks. Students work in copies, so that a later archive may be unpacked over this one.
HANDOUT = "handout"
#: None of these belongs in a student's notebook.
SECRETS = ("BEGIN SOLUTION", "BEGIN HIDDEN", "judge_here")
#: The time of all files, so that the same course gives the same archive.
EPOCH = (2026, 1, 1, 0, 0, 0)

README = """\
# Attention, unit by unit: your notebooks

Why attention in transformers is built as it is, worked out one small function at a time.

## Start

You need Python 3.11 or newer. In this folder:

    make lab                                              (Linux, macOS)
    python3 tools/bootstrap.py --run tools/lab.py         (the same without make)
    py tools\\bootstrap.py --run tools\\lab.py              (Windows)

The first time this installs what is needed into the folder .venv (some minutes, about 1.5 GB); later it starts at once.
With conda: `conda env create -f environment.yml`, `conda activate attention-course`, `python tools/lab.py`.
Where JupyterLab runs already, such as on a server of your school, run `python3 tools/update.py` once, and open the
folder `notebooks/` there.

Your notebooks are in `notebooks/`, made from `handout/` at the start. When you get a later archive, unpack it over this
folder and start again. New units come to `notebooks/`. If a unit that you began was corrected, your answers and your
own cells stay, everything else follows the new version, and `grading/replaced/` has a copy of your notebook as it was.

## Work

Read, write your answer where it says `NotImplementedError`, and run the test below it: its message says what is
probably wrong. Change neither a test nor the name of a notebook, and delete no cell. Save before you hand in.

## Hand in

One file for each unit: its notebook, such as `notebooks/{unit}/{unit}.ipynb`, where your instructor says.

## How your work is judged

On other inputs than those that you see, with partial marks. What you get back is a page of your own that says for each
exercise what is right and what probably went wrong. The judge is not in this folder: it holds the answers, and
`autograder check`, which the notebooks mention, comes with it. The tests that you see are your guide until then: they
are made to tell the usual mistakes.
"""

MAKEFILE = """\
# Another Python: make lab PYTHON=python3.12.  More arguments: make lab ARGS="--no-browser --port 8890".
PYTHON ?= python3
ARGS ?=

.PHONY: lab update clean

lab:
\t@$(PYTHON) tools/bootstrap.py --run tools/lab.py $(ARGS)

update:
\t@$(PYTHON) tools/update.py

clean:
\trm -rf .venv .setup.lock *.egg-info
"""

PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "attention-course-notebooks"
description = "What the notebooks of the attention course need."
version = "{version}"
requires-python = "{python}"
dependencies = [
{dependencies}
]

[tool.setuptools]
packages = ["attention_figures"]

[tool.setuptools.package-data]
attention_figures = ["*"]
"""


def bundle(root: Path, units: Sequence[str], path: Path) -> Path:
    """Write the archive of the course folder `root` (no unit named: all). Raises NotUsable with the remedy."""
    if not path.name.endswith((".zip", ".tar.gz")):
        raise NotUsable(f"{path}: the archive is a .zip or a .tar.gz; name it so")
    different = out_of_step(root, units)
    if different:
        remedy = "run `autograder release`, which keeps a copy of what somebody wrote there, and try again"
        raise NotUsable(f"{different[0]} is not what solutions/ gives; {remedy}")
    files = contents(root, units or unit_names())
    for name, data in files.items():
        found = next((word for word in SECRETS if name.endswith(".ipynb") and word.encode() in data), None)
        if found:
            raise NotUsable(f"{name}: holds {found!r}, which is not for students; run `autograder release`")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        aside.write_bytes(_zip(files) if path.suffix == ".zip" else _tar(files))
        os.replace(aside, path)
    except OSError as error:
        raise NotUsable(f"{path}: cannot be written ({error.strerror})") from None
    return path


def contents(root: Path, units: Sequence[str]) -> dict[str, bytes]:
    """Return name in the archive -> content. Raises NotUsable."""
    course = _source(root)
    files = {name: course / name for name in FILES}
    files |= {f"tools/{name}": course / "tools" / name for name in TOOLS}
    figures = course / "attention_figures"
    files |= {f"{figures.name}/{path.name}": path for path in figures.glob("*.*")}
    settings = course / "tools" / "jupyter"
    files |= {
        f"tools/jupyter/{p.relative_to(settings).as_posix()}": p
        for kind in ("*.json", "*.css")
        for p in settings.rglob(kind)
    }
    files |= {f"{HANDOUT}/{unit}/{unit}.ipynb": root / "notebooks" / unit / f"{unit}.ipynb" for unit in units}
    of_course = [unit for unit in units if unit in unit_names()]  # the map of the course has only these
    try:
        page = {f"{HANDOUT}/{START_PAGE}": start_page(course_map(root, of_course))} if of_course else {}
    except NoMap as error:
        raise NotUsable(str(error)) from None
    written = {
        **page,
        "README.md": README.replace("{unit}", units[0]),
        "Makefile": MAKEFILE,
        "pyproject.toml": _project(course),
        "environment.yml": _conda(course),
    }
    try:
        found = {name: path.read_bytes() for name, path in files.items()}
    except OSError as error:
        place = error.filename
        raise NotUsable(f"{place}: not there; a bundle is made in a clone of the course with its release") from None
    found |= {name: text.encode() for name, text in written.items()}
    return {f"{TOP}/{name}": found[name] for name in sorted(found)}


def _source(root: Path) -> Path:
    """Return where the tools are: the course folder if it is a clone, else the clone of the running package."""
    return root if (root / "tools" / TOOLS[0]).is_file() else HOME


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise NotUsable(f"{path}: not there; a bundle is made in a clone of the course") from None


def _project(course: Path) -> str:
    project = tomllib.loads(_text(course / "pyproject.toml"))["project"]
    lines = "\n".join(f"    {json.dumps(text)}," for text in project["dependencies"])
    return PROJECT.format(version=__version__, python=project["requires-python"], dependencies=lines)


def _conda(course: Path) -> str:
    """Return the course's environment.yml without comments and without what instructors need."""
    lines = _text(course / "environment.yml").splitlines()
    body = [line for line in lines[: lines.index("  # for instructors")] if not line.lstrip().startswith("#")]
    return "\n".join(line for line in body if line.strip() != "- pip") + "\n"


def _zip(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return buffer.getvalue()


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, calendar.timegm(EPOCH)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
