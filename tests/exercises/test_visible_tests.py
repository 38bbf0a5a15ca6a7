"""The tests that a student sees, on their own: they pass what is right and catch what is wrong, with words."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import re
import sys
import warnings
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch

from answers import answers_of
from autograder.exercises import exercises, find_exercise, unit_names
from autograder.worker.encode_values import leaves, map_leaves
from conftest import exercise_names

ROOT = Path(__file__).parents[2]
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.DOTALL)
SHARE_CAUGHT = 0.9


@functools.cache
def sources(unit: str) -> dict[str, str]:
    """grade_id -> the source of that cell of a solution notebook; "given": all given cells."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    found = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in notebook.cells}
    given = "\n\n".join(cell.source for cell in notebook.cells if "given" in cell.metadata.get("tags", []))
    return {**found, "given": given}


@functools.lru_cache(1)
def given_namespace(unit: str) -> tuple[dict, dict]:
    """The names of a unit's given cells, run once, and a copy of them as they were then.

    Functions keep the first one as their globals: each test begins by putting it back.
    """
    names: dict = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(sources(unit)["given"], "<given>", "exec"), names)
    for name, exercise in exercises(unit).items():  # what a learner has written by then
        names.setdefault(name, exercise.reference)
    return names, dict(names)


def visible_test(unit: str, function: str):
    """A callable that runs the visible test of `function` on a given implementation, or on the source of one.

    Those of ours may be torch's own calls, which an answer may not use.
    """
    cells = sources(unit)
    assert f"test_{function}" in cells, f"solutions/{unit} has no test cell with the grade_id 'test_{function}'"
    test = compile(HIDDEN.sub("", cells[f"test_{function}"]), f"<test_{function}>", "exec")

    def run(implementation, ours=False):
        names, before = given_namespace(unit)
        names.clear()
        names.update(before)
        if ours:
            names["check_calls"] = lambda answer, inputs, *not_allowed: answer(*inputs)
        if isinstance(implementation, str):
            exec(implementation, names)
        else:
            names[function] = implementation
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(test, names)

    return run


def lets_through(function: str, missed: list[str]) -> str:
    return f"the visible test of {function} lets these through: {', '.join(missed)}; add asserts"


NAMES = exercise_names()


@pytest.mark.parametrize("name", NAMES)
def test_the_visible_test_passes_the_reference(name):
    exercise = find_exercise(name)
    visible_test(exercise.unit, exercise.name)(exercise.reference, ours=True)


@functools.cache
def known_mistakes_met(name: str) -> tuple[list[str], list[str]]:
    """(those that the visible test lets through, those that it meets without a word)"""
    exercise = find_exercise(name)
    run = visible_test(exercise.unit, name)
    missed, silent = [], []
    for mistake in exercise.mistakes:
        try:
            run(mistake.wrong, ours=True)
        except AssertionError as error:
            if len(str(error)) < 15:
                silent.append(mistake.slug)
        except Exception:
            pass  # the student sees the exception of his own code
        else:
            missed.append(mistake.slug)
    return missed, silent


@pytest.mark.parametrize("name", NAMES)
def test_the_visible_test_says_something_of_each_known_mistake(name):
    exercise = find_exercise(name)
    silent = known_mistakes_met(exercise.name)[1]
    assert not silent, f"the visible test of {exercise.name} has an assert without words, which meets {silent}"


@pytest.mark.parametrize("name", NAMES)
def test_the_visible_test_refuses_no_right_answer(name):
    run = visible_test(find_exercise(name).unit, name)
    for answer in answers_of(name, "right"):
        try:
            run(answer)
        except Exception as error:
            raise AssertionError(f"{answer.__name__} is right, but the visible test says: {error}") from error


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_the_visible_test_catches_most_wrong_answers(name):
    exercise = find_exercise(name)
    run, wrong = visible_test(exercise.unit, name), answers_of(name, "wrong")
    missed = [*known_mistakes_met(name)[0]]
    for answer in wrong:
        try:
            run(answer)
        except Exception:
            continue
        missed.append(answer.__name__)
    count = len(wrong) + len(exercise.mistakes)
    assert len(missed) <= round((1 - SHARE_CAUGHT) * count), lets_through(name, missed)


ATTEND = "    return F.scaled_dot_product_attention(Q, K, V)"


@pytest.mark.parametrize(
    ("unit", "function", "source"),
    [
        ("04_multi_head", "bmm_attention", f"def bmm_attention(Q, K, V, mask=None):\n{ATTEND}"),
        ("06_cross_attention", "cross_attention", f"def cross_attention(X, Y, Q, K, V, *rest):\n{ATTEND}"),
        ("07_transformer_block", "layer_norm",
         "def layer_norm(x, gamma, beta, eps=1e-5):\n    return nn.functional.layer_norm(x, x.shape[-1:], gamma, beta, eps)"),
        ("07_transformer_block", "layer_norm",
         "g = F.group_norm\ndef layer_norm(x, gamma, beta, eps=1e-5):\n"
         "    return g(x.reshape(-1, x.shape[-1]), 1, gamma, beta, eps).view_as(x)"),
        ("07_transformer_block", "batch_norm",
         "def batch_norm(x, gamma, beta, eps=1e-5):\n    flat = x.reshape(-1, x.shape[-1]).T\n"
         "    return F.layer_norm(flat, flat.shape[-1:], eps=eps).T.reshape(x.shape) * gamma + beta"),
        ("07_transformer_block", "gelu", "gelu = nn.GELU()"),
        ("09_gpu_speed", "batched_attention", f"def batched_attention(Q, K, V, causal=False):\n{ATTEND}"),
        ("10_attention_today", "rms_norm",
         "def rms_norm(x, gamma, eps=1e-6):\n    return F.rms_norm(x, x.shape[-1:], gamma, eps)"),
        ("10_attention_today", "sink_attention", f"def sink_attention(Q, K, V, sink, mask=None):\n{ATTEND}"),
        ("10_attention_today", "delta_rule",
         "def delta_rule(Q, K, V, beta, state=None):\n    return delta_by_steps(Q, K, V, beta, state)"),
        ("11_real_model", "llama_logits",
         "def llama_logits(tokens, params, h, g, base=1e4, eps=1e-5):\n"
         "    return model_by_torch(tokens, params, h, g, base, eps)"),
    ],
)  # fmt: skip
def test_the_visible_test_says_what_is_not_allowed(unit, function, source):
    with pytest.raises(AssertionError, match=r"Not allowed in (this|an) answer: "):
        visible_test(unit, function)(source)


def test_an_earlier_answer_is_allowed_in_the_next():
    visible_test("07_transformer_block", "batch_norm")("""
def layer_norm(x, gamma, beta, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / ((x - mean) ** 2).mean(-1, keepdim=True).add(eps).sqrt() * gamma + beta


def batch_norm(x, gamma, beta, eps=1e-5):
    flat = x.reshape(-1, x.shape[-1]).T
    return layer_norm(flat, 1, 0, eps).T.reshape(x.shape) * gamma + beta
""")


def test_the_judge_is_named_where_it_is_installed_and_not_elsewhere(monkeypatch):
    wrong = "def causal_mask(n):\n    return np.tri(n, dtype=bool) if n < 7 else ~np.tri(n, dtype=bool)"
    run = visible_test("03_masking", "causal_mask")
    with pytest.raises(AssertionError) as met:
        run(wrong)
    assert str(met.value).splitlines()[-1] == f'!"{sys.executable}" -m autograder check 3'
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(AssertionError) as met:
        run(wrong)
    assert "autograder" not in str(met.value) and "Wrong for n = 7" in str(met.value)


def in_float32(function):
    """The function with a step that is rounded to float32, though what comes out has the dtype that came in."""

    @functools.wraps(function)
    def rounded(*args, **kwargs):
        floats = [leaf for leaf in leaves((args, kwargs)) if str(getattr(leaf, "dtype", "")).endswith("float64")]
        if not floats:
            return function(*args, **kwargs)
        args, kwargs = (map_leaves(value, lambda leaf: cast(leaf, "float64", "float32")) for value in (args, kwargs))
        return map_leaves(function(*args, **kwargs), lambda leaf: cast(leaf, "float32", "float64"))

    return rounded


def cast(leaf, before, after):
    if not str(getattr(leaf, "dtype", "")).endswith(before):
        return leaf
    return leaf.astype(after) if isinstance(leaf, (np.ndarray, np.generic)) else leaf.to(getattr(torch, after))


ROUNDED = (
    *("soft_lookup", "masked_softmax", "bmm_attention", "multi_head_attention", "head_contributions"),
    *("grouped_query_attention", "multi_query_attention", "decode_step", "extend_cache", "cross_attention"),
    *("batch_norm", "feed_forward", "post_norm_block", "transformer_logits"),
    *("rotate", "rms_norm", "modern_block", "latent_step", "llama_logits", "llama_step"),
)


@pytest.mark.parametrize("name", ROUNDED)
def test_rounding_to_float32_is_told_as_no_other_mistake(name):
    exercise = find_exercise(name)
    with pytest.raises(AssertionError, match="float32"):
        visible_test(exercise.unit, name)(in_float32(exercise.reference), ours=True)


@pytest.mark.parametrize("unit", unit_names())
def test_the_rules_of_a_unit_state_the_precision(unit):
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    rules = " ".join(next(cell.source for cell in notebook.cells if cell.id == "every-function").split())
    assert "No step in between" in rules or "no step in between" in rules
