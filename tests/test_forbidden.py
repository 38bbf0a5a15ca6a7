"""Forbidden libraries are found where an answer uses them, and only there."""

from __future__ import annotations

import pytest

from autograder.forbidden import find_forbidden

FORBIDDEN = ("scipy", "torch", "autograder")


@pytest.mark.parametrize(
    "sources",
    [
        ["def f(z):\n    import scipy.special\n    return scipy.special.softmax(z)"],
        ["from scipy.special import softmax as s\ndef f(z):\n    return s(z)"],
        ["import torch as t", "def f(z):\n    return t.softmax(z)"],
        ["import scipy", "def helper(z):\n    return scipy.special.softmax(z)", "def f(z):\n    return helper(z)"],
        ["from scipy.special import softmax\nf = softmax"],
        ["def f(z):\n    return __import__('scipy.special').special.softmax(z)"],
        ["import importlib", "def f(z):\n    return importlib.import_module('scipy.special').softmax(z)"],
        ["%matplotlib inline\nfrom scipy import special\ndef f(z):\n    return special.softmax(z)"],
    ],
)
def test_it_is_found(sources):
    assert find_forbidden("f", sources, FORBIDDEN)


@pytest.mark.parametrize(
    "sources",
    [
        ["import numpy as np\ndef f(z):\n    return np.exp(z)"],
        ["import scipy", "def g(z):\n    return scipy.special.softmax(z)", "def f(z):\n    return z"],
        ["def f(torch):\n    return torch + 1"],
        ["def f(z):\n    return z  # not scipy", "x = 'scipy'"],
        ["def f(z:\n    broken"],
        ["def g(z):\n    import scipy.special as s\n    return s.softmax(z)", "def f(s):\n    return s + 1"],
    ],
)
def test_it_is_not_imagined(sources):
    assert find_forbidden("f", sources, FORBIDDEN) is None


def test_a_call_is_found_by_its_last_parts():
    source = "import torch.nn.functional as F\ndef f(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)"
    assert find_forbidden("f", [source], ("F.scaled_dot_product_attention",))
    assert find_forbidden("f", [source], ("nn.MultiheadAttention",)) is None


def test_a_given_function_can_be_forbidden():
    forbidden = ("scipy", "widen")
    assert (
        find_forbidden("f", ["def f(X):\n    return g(X)", "def g(X):\n    return widen(X, 2)"], forbidden) == "widen"
    )
    assert find_forbidden("f", ["def f(X, widen):\n    return widen(X)"], forbidden) is None
    assert find_forbidden("f", ["def widen(X):\n    return X", "def f(X):\n    return widen(X)"], forbidden) is None
