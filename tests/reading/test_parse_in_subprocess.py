"""Cells that take too long to be read: they cost themselves, and a bounded time."""

from __future__ import annotations

import gc
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autograder.reading import transform_cells
from autograder.reading.cell_syntax import Unread, Uses, definitions, read, statements
from autograder.reading.read_submission import read_bytes

#: IPython's expression for questions looks at such a line from each of its letters.
LONG_QUESTION = "a" * 40_000 + " x ?"
EMPTY = b'{"cells": [], "nbformat": 4, "nbformat_minor": 5}'


def test_a_line_that_holds_its_reader_is_given_up_and_the_next_is_read():
    read_bytes(EMPTY, "new.ipynb")
    with pytest.raises(Unread):
        read(LONG_QUESTION)
    left = transform_cells._here.left
    assert statements(LONG_QUESTION) == [] and transform_cells._here.left == left, "it is not tried again"
    assert [type(node).__name__ for node in read("%timeit y = 1")] == ["Assign"]


def test_all_cells_of_a_submission_share_a_time_and_the_next_submission_has_its_own(monkeypatch):
    monkeypatch.setattr(transform_cells, "CELL_SECONDS", 0.5)
    monkeypatch.setattr(transform_cells, "ALL_SECONDS", 1.0)
    read_bytes(EMPTY, "new.ipynb")
    for number in range(round(transform_cells.ALL_SECONDS / transform_cells.CELL_SECONDS)):
        with pytest.raises(Unread):
            read(f"b{number}{LONG_QUESTION}")
    with pytest.raises(Unread):
        read("%timeit unheard_of = 1")
    read_bytes(EMPTY, "next.ipynb")
    assert len(read("%timeit unheard_of = 1")) == 1


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("%matplotlib inline", "get_ipython().run_line_magic('matplotlib', 'inline')\n"),
        ("a?", "get_ipython().run_line_magic('pinfo', 'a')\n"),
        ("x = !ls", "x = get_ipython().getoutput('ls')\n"),
        ("def f(:\n%time 1", "def f(:\n%time 1"),
        ("'\N{SNOWMAN}?'", "'\N{SNOWMAN}?'\n"),
    ],
)
def test_what_is_read_apart_is_what_is_read_here(cell, text):
    transform_cells.begin()
    assert transform_cells.python_of(cell) in (text, transform_cells.here(cell)) and transform_cells.here(cell) in (
        text,
        text + "\n",
    )


def test_a_thread_and_a_forked_process_have_readers_of_their_own():
    transform_cells.begin()
    transform_cells.python_of("%time 1")
    mine = transform_cells._here.reader
    found = []
    thread = threading.Thread(
        target=lambda: found.append((transform_cells.python_of("%time 2"), transform_cells._here.reader))
    )
    thread.start()
    thread.join()
    assert found[0][1] is not mine and "time" in found[0][0]
    child = os.fork()
    if child == 0:
        right = (
            transform_cells.python_of("%time 3") == transform_cells.here("%time 3")
            and transform_cells._here.reader is not mine
        )
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (
        transform_cells.python_of("%time 4") == transform_cells.here("%time 4") and transform_cells._here.reader is mine
    )


def test_a_reader_holds_nothing_that_was_open(tmp_path):
    """A submission lives while its line is open: a copy of it would keep it alive."""
    with (tmp_path / "open").open("w"):
        transform_cells._here.reader = None
        transform_cells.begin()
        transform_cells.python_of("%time 1")
        links = Path(f"/proc/{transform_cells._here.reader._child}/fd").iterdir()
        assert [os.readlink(link).split(":")[0] for link in links] == ["socket"]


def test_odd_text_ends_quickly_and_never_fails():
    pieces = ["%time ", "%%time\n", "x = !ls", "F?", "\n", "(", "]", '"', "'''", "\\\n", "    ", "def f(x):", "é", ">>> ",
              "lambda x: ", "a.b", "exec('", "=", ":=", "\x0c", "\u2028", "\0", "match x:\n case y: 1\n", "global x\n"]  # fmt: skip
    for seed in range(300):
        rng = random.Random(seed)
        source = "".join(rng.choice(pieces) for _ in range(rng.randrange(60)))
        statements(source)
        Uses([source, "def f(x):\n    return a"]).uses("f", "g")


def test_a_cell_is_read_as_the_notebook_runs_it():
    assert definitions("%%time\ndef f(x):\n    return x") == ["f"]
    assert definitions("F?\ndef f(x):\n    return x\nx = !ls") == ["f"]
    assert definitions("%%time\n" * 20 + "def f(x): pass") == []
    assert definitions("%%writefile a.py\ndef f(x): pass") == ["f"]
    assert read("%pip install scipy") == read("def f(:") == []


@pytest.mark.nightly
def test_cells_are_read_side_by_side(monkeypatch):
    """Python code that the collector runs while a tree is built lets another thread begin a tree of its own."""
    monkeypatch.setattr(transform_cells, "CELL_SECONDS", 600.0)  # it is not about time, and the machine may be busy
    monkeypatch.setattr(transform_cells, "ALL_SECONDS", 600.0)
    read_bytes(EMPTY, "new.ipynb")
    gc.callbacks.append(lambda *_: sum(range(20_000)))
    source = "\n".join(f"def f{i}(x):\n    return [x + {i}, (x, x)]" for i in range(2000))
    try:
        with ThreadPoolExecutor(4) as pool:
            counts = list(pool.map(lambda i: len(read(f"{source}\nx = {i}")), range(16)))
    finally:
        gc.callbacks.pop()
    assert counts == [2001] * 16
