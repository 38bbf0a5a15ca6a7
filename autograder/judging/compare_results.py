"""Compares a result with the expected one and says what differs by more than rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..exercises.kit.exercise_records import OF_INPUTS, RTOL_FLOAT64, Case, Leaf
from ..safe_text import counted, returned, spoken, verb
from ..worker.encode_values import Foreign, Tensor, leaves, map_leaves

#: How many random directions the inputs are moved in, and how much larger the second step is.
DIRECTIONS, FURTHER = 3, 64
#: Another order of operations, or sums in a loop, may change a result several times as much as a move of the inputs
#: does.
SAFE = 16
#: The largest tolerance.
LOOSEST = 0.05


def rounding_tolerance(ask: Callable[[Case, bool], Any], case: Case, expected: Any, enough: float) -> float:
    """Return a relative tolerance that no correct answer to `case` exceeds by rounding.

    It is 0 if no input is floating, if `enough` clearly suffices, or if the result jumps, as at a deliberate tie, so
    that a smaller step changes it as much.

    ask: returns the reference's value on a case; its flag asks for float64 throughout. It returns None where the
        reference raises.
    enough: the tolerance of the case.
    """
    digit = max((_digit(value) for value in leaves((case.args, case.kwargs))), default=0.0)
    if not digit:
        return 0.0
    steps = [digit, digit * FURTHER] if digit * FURTHER < 1e-6 else [digit / FURTHER, digit]
    rng, in_float64 = np.random.default_rng(0), steps[0] == digit
    direct = 0.0 if in_float64 else _distance(ask(case, False), expected)

    def moves(step: float, times: int) -> float:
        return max(_distance(ask(_moved(case, rng, step), True), expected) for _ in range(times))

    if 4 * SAFE * max(direct, moves(steps[1], 1)) < enough:
        return 0.0
    little, much = (moves(step, DIRECTIONS) for step in steps)
    if little > 8 * much / FURTHER:
        return 0.0
    worst = max(direct, little if in_float64 else much)
    return min(SAFE * worst, LOOSEST)


def _digit(value: Any) -> float:
    """The machine epsilon of a floating array's dtype; 0 for anything else."""
    return float(np.finfo(value.dtype).eps) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else 0.0


def _moved(case: Case, rng: np.random.Generator, step: float) -> Case:
    """The case with each floating number changed by a relative step of about `step`, up or down."""

    def move(value: Any) -> Any:
        if not _digit(value):
            return value
        moved = np.array(value, np.float64, order="K")
        moved *= 1 + step * rng.choice((-1.0, 1.0), value.shape) * rng.uniform(0.5, 1.0, value.shape)
        return moved

    args = tuple(map_leaves(value, move) for value in case.args)
    return replace(case, args=args, kwargs={key: map_leaves(value, move) for key, value in case.kwargs.items()})


def _distance(answer: Any, expected: Any) -> float:
    """The largest difference between two results, each part relative to its largest entry."""
    one, other, worst = list(leaves(answer)), list(leaves(expected)), 0.0
    if len(one) != len(other):
        return 0.0
    for value, wanted in zip(one, other, strict=True):
        if not isinstance(value, (np.ndarray, float)) or not isinstance(wanted, (np.ndarray, float)):
            continue
        value, wanted = np.asarray(value), np.asarray(wanted)
        if value.dtype.kind != "f" or wanted.dtype.kind != "f" or value.shape != wanted.shape:
            continue
        finite = np.isfinite(wanted)
        scale = float(np.abs(wanted[finite]).max(initial=0.0))
        off = float(np.abs(value[finite].astype(np.float64) - wanted[finite]).max(initial=0.0))
        if scale and np.isfinite(off):
            worst = max(worst, off / scale)
    return worst


RTOL_FLOAT32 = 5e-5
FLOOR = 1e-12
#: The largest tolerance for recognising a relation, unless the case's own tolerance is larger.
SLACK = 100 * RTOL_FLOAT32

WORDS = {"i": "int", "u": "int", "f": "float", "b": "bool", "c": "complex"}


@dataclass(frozen=True)
class Misfit:
    """A result whose nested tuples have the wrong structure, described in words."""

    text: str


@dataclass(frozen=True)
class Problem:
    """Why one call of an answer is wrong.

    kind: "none", "type", "tuple", "shape", "dtype", "precision", "nan", "values", "raised", "not-raised", "warned",
        "made", "detached", "gradient", "examined", "unanswered".
    text: the same in words, without any expected number.
    leaf: the index of the wrong result.
    slug: the mistake, if it is already known.
    """

    kind: str
    text: str
    leaf: int = 0
    slug: str | None = None


def tolerance(case: Case) -> float:
    """Return the relative tolerance of a case: its own, or one that follows from the precision of its inputs."""
    if case.rtol is not None:
        return case.rtol
    floats = _float_dtypes(case)
    return RTOL_FLOAT32 if floats and min(dtype.itemsize for dtype in floats) < 8 else RTOL_FLOAT64


def slack(case: Case, times: float) -> float:
    """Return `times` the tolerance, capped at SLACK, for relations that hold only approximately."""
    rtol = tolerance(case)
    return max(rtol, min(times * rtol, SLACK))


def _float_dtypes(case: Case) -> list[np.dtype]:
    values = leaves((*case.args, *case.kwargs.values()))
    return [value.dtype for value in values if isinstance(value, np.ndarray) and value.dtype.kind == "f"]


def flat(returns: Leaf | tuple[Any, ...], value: Any) -> Any:
    """Return nested results as one flat tuple, or a `Misfit` if their structure is not the expected one."""
    if isinstance(returns, Leaf) or all(isinstance(item, Leaf) for item in returns) or value is None:
        return value
    parts = _parts(returns, value)
    return Misfit(f"it returned {describe(value)} instead of {form_of(returns)}") if parts is None else parts


def _parts(returns: Leaf | tuple[Any, ...] | list[Any], value: Any) -> tuple[Any, ...] | None:
    if isinstance(returns, Leaf):
        return (value,)
    kinds = (tuple, list) if isinstance(returns, list) else tuple
    if not isinstance(value, kinds) or len(value) != len(returns):
        return None
    found = [_parts(one, other) for one, other in zip(returns, value, strict=True)]
    return None if any(part is None for part in found) else tuple(item for part in found for item in part)


def form_of(returns: Leaf | tuple[Any, ...] | list[Any]) -> str:
    """Return the expected structure in words: (the logits, [(the keys, the values)])."""
    if isinstance(returns, Leaf):
        return returns.name
    inner = ", ".join(map(form_of, returns))
    return f"[{inner}]" if isinstance(returns, list) else f"({inner})"


def find_gradient_problem(names: list[str], value: Any, expected: tuple[Any, ...], case: Case) -> Problem | None:
    """Return the first problem of the gradients of the floating inputs, which `names` lists in order, or None."""
    if isinstance(value, tuple) and not value:
        return Problem("detached", "no gradient reaches any input")
    if not isinstance(value, tuple) or len(value) != len(expected):
        return Problem("gradient", "no gradient could be worked out")
    pairs = [(n, v, e) for n, v, e in zip(names, value, expected, strict=True) if e is not None and np.any(e)]
    if pairs and all(v is None for _, v, _ in pairs):
        return Problem("detached", "no gradient reaches any input")
    for name, found, wanted in pairs:
        if found is None or (isinstance(found, np.ndarray) and not found.any()):
            return Problem("detached", f"no gradient reaches `{name}`")
        if isinstance(found, np.ndarray) and not np.isfinite(found).all():
            return Problem(
                "gradient", f"the gradient with respect to `{name}` holds NaN or infinity", slug="nan-gradient"
            )
        if not isinstance(found, np.ndarray) or not close(found, np.asarray(wanted), tolerance(case)):
            return Problem("gradient", f"the gradient with respect to `{name}` is wrong")
    for name, found, wanted in zip(names, value, expected, strict=True):
        if isinstance(found, np.ndarray) and (wanted is None or not np.any(wanted)) and not close(found, found * 0, 1):
            return Problem("gradient", f"the result depends on `{name}`, which it should not")
    return None


def find_problem(
    leaves: tuple[Leaf, ...], many: bool, value: Any, expected: Any, case: Case, library: str = "numpy"
) -> Problem | None:
    """Return the first problem of `value`, or None. `many` means that a tuple is expected."""
    if value is None:
        return Problem("none", "it returned None")
    if isinstance(value, Misfit):
        return Problem("tuple", value.text)
    if not many:
        return _leaf_problem(leaves[0], 0, value, expected, case, library)
    if not isinstance(value, tuple):
        return Problem("tuple", f"it returned {describe(value)} instead of a tuple of {len(leaves)}")
    if len(value) != len(leaves):
        return Problem("tuple", f"it returned a tuple of {len(value)} instead of {len(leaves)}")
    for index, leaf in enumerate(leaves):
        problem = _leaf_problem(leaf, index, value[index], expected[index], case, library)
        if problem is not None:
            return problem
    return None


def _leaf_problem(leaf: Leaf, index: int, value: Any, expected: Any, case: Case, library: str) -> Problem | None:
    name, holds = spoken(leaf.name), verb(spoken(leaf.name), "holds", "hold")
    if value is None:
        return Problem("none", f"{name} {verb(spoken(leaf.name), 'is', 'are')} None", index)
    if leaf.kind in ("int", "float", "bool"):
        return _scalar_problem(leaf, index, value, expected, case)
    if leaf.kind in ("int list", "text list"):
        return _list_problem(leaf, index, value, expected)
    if leaf.kind == "pair list":
        return _pairs_problem(leaf, index, value, expected)
    if leaf.kind == "text":
        return _text_problem(leaf, index, value, expected)
    if not isinstance(value, np.ndarray):
        asked = "a NumPy array" if library == "numpy" else "a torch tensor"
        return Problem("type", f"{_is(leaf, value)} instead of {asked}", index)
    expected = np.asarray(expected)
    if value.shape != expected.shape:
        return Problem(
            "shape", f"the shape of {returned(leaf.name)} is {value.shape} instead of {expected.shape}", index
        )
    wanted = leaf.kind.split()[0]
    if WORDS[value.dtype.kind] != wanted or (leaf.exactly and value.dtype != leaf.exactly):
        text = f"{_has(leaf, value)} instead of {leaf.exactly or wanted}"
        return Problem("dtype", text, index)
    if wanted == "float" and library == "torch" and value.dtype != _common_dtype(case):
        text = f"{_has(leaf, value)} instead of {_common_dtype(case)}, the dtype of the inputs"
        return Problem("precision", text, index)
    if wanted == "float" and value.dtype.itemsize < _common_dtype(case).itemsize:
        return Problem("precision", f"{_has(leaf, value)}, which is less precise than the inputs", index)
    if wanted == "float" and not np.isfinite(value[value != expected]).all():
        return Problem("nan", f"{name} {holds} NaN or infinity", index)
    if not close(value, expected, tolerance(case)):
        return Problem("values", _where(name, value, expected, tolerance(case)), index)
    return None


def _scalar_problem(leaf: Leaf, index: int, value: Any, expected: Any, case: Case) -> Problem | None:
    name = spoken(leaf.name)
    if isinstance(value, np.ndarray):
        if value.shape != ():
            text = f"the shape of {name} is {value.shape}, but {name} should be a single number"
            return Problem("shape", text, index)
        another = value.dtype.kind == "f" and value.dtype != _common_dtype(case)
        if leaf.exactly == OF_INPUTS and another and value:  # a 0 is the same number in every dtype
            text = f"{_has(leaf, value)} instead of {_common_dtype(case)}, the dtype of the inputs"
            return Problem("precision", text, index)
        value = value[()].item()
    if isinstance(value, (Tensor, Foreign, str, tuple, list, dict)):
        return Problem("type", f"{_is(leaf, value)} instead of {_a(leaf.kind)}", index)
    allowed = {"int": (int,), "float": (int, float), "bool": (bool,)}[leaf.kind]
    if not isinstance(value, allowed) or (leaf.kind != "bool" and isinstance(value, bool)):
        return Problem("dtype", f"{_is(leaf, value)} instead of {_a(leaf.kind)}", index)
    if leaf.kind == "float":
        if not math.isfinite(value):
            return Problem("nan", f"{name} {verb(spoken(leaf.name), 'is', 'are')} NaN or infinite", index)
        right = close(np.asarray(float(value)), np.asarray(float(expected)), tolerance(case))
    else:
        right = value == expected
    return None if right else Problem("values", f"{name} {verb(spoken(leaf.name), 'is', 'are')} wrong", index)


def _list_problem(leaf: Leaf, index: int, value: Any, expected: list[Any]) -> Problem | None:
    name, holds = spoken(leaf.name), verb(spoken(leaf.name), "holds", "hold")
    items, of, wrong = ("strings", str, ()) if leaf.kind == "text list" else ("ints", int, bool)
    if not isinstance(value, list):
        return Problem("type", f"{_is(leaf, value)} instead of a list of {items}", index)
    for item in value:
        if isinstance(item, wrong) or not isinstance(item, of):
            return Problem("dtype", f"{name} {holds} {describe(item)} instead of Python {items}", index)
    item = _item_of(leaf)
    if len(value) != len(expected):
        text = f"your list has {counted(len(value), item) if item else _entries(value)} instead of {len(expected)}"
        return Problem("shape", text, index)
    others = items if leaf.kind == "text list" else "numbers"
    text = f"your list holds the wrong {f'{item}s' if item else others}"
    return None if value == expected else Problem("values", text, index)


def _pairs_problem(leaf: Leaf, index: int, value: Any, expected: list[tuple[int, int]]) -> Problem | None:
    name, holds, have = (
        spoken(leaf.name),
        verb(spoken(leaf.name), "holds", "hold"),
        verb(spoken(leaf.name), "has", "have"),
    )
    if not isinstance(value, list):
        return Problem("type", f"{_is(leaf, value)} instead of a list of pairs", index)
    found = []
    for item in value:
        if not isinstance(item, tuple) or len(item) != 2:
            return Problem("type", f"{name} {holds} {describe(item)} instead of tuples of two ints", index)
        numbers = [part.item() if isinstance(part, np.ndarray) and part.shape == () else part for part in item]
        if any(isinstance(part, bool) or not isinstance(part, int) for part in numbers):
            return Problem("dtype", f"{name} {holds} a pair that doesn't consist of two ints", index)
        found.append(tuple(numbers))
    wanted = [tuple(item) for item in expected]
    if found == wanted:
        return None
    if sorted(found) == sorted(wanted):
        return Problem("values", f"{name} {holds} the right pairs in the wrong order", index)
    if len(found) != len(wanted):
        return Problem("shape", f"{name} {have} {_entries(found)} instead of {len(wanted)}", index)
    return Problem("values", f"{name} {holds} the wrong pairs", index)


def _item_of(leaf: Leaf) -> str:
    """What a list of this name holds: "token" for the tokens, and "" for the list."""
    return name[:-1] if (name := leaf.name.removeprefix("the ")).endswith("s") else ""


def _entries(found: list[Any]) -> str:
    return "1 entry" if len(found) == 1 else f"{len(found)} entries"


def _is(leaf: Leaf, value: Any) -> str:
    return f"{spoken(leaf.name)} {verb(spoken(leaf.name), 'is', 'are')} {describe(value)}"


def _has(leaf: Leaf, value: np.ndarray) -> str:
    return f"{spoken(leaf.name)} {verb(spoken(leaf.name), 'has', 'have')} dtype {value.dtype}"


def _text_problem(leaf: Leaf, index: int, value: Any, expected: str) -> Problem | None:
    if not isinstance(value, str):
        return Problem("type", f"{_is(leaf, value)} instead of a str", index)
    return None if value == expected else Problem("values", f"{spoken(leaf.name)} is wrong", index)


def close(value: np.ndarray, expected: np.ndarray, rtol: float) -> bool:
    """Return whether two arrays are equal up to `rtol` times the largest finite expected entry; shapes must match.

    NaN is never close; an infinite entry is close only to itself.
    """
    if value.shape != expected.shape:
        return False
    if value.dtype.kind != "f" and expected.dtype.kind != "f":
        return bool(np.array_equal(value, expected))
    return not differing(value.astype(np.float64), expected.astype(np.float64), rtol).any()


def differing(value: np.ndarray, expected: np.ndarray, rtol: float) -> np.ndarray:
    """Return which entries differ by more than `rtol` times the largest finite expected entry."""
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        near = np.isfinite(value) & (np.abs(value - expected) <= rtol * scale + FLOOR)
    return ~(near | (value == expected))


def same(one: Any, other: Any, rtol: float) -> bool:
    """Return whether two answers agree, as when one is compared with a known mistake; here NaN equals NaN."""
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return (
            type(one) is type(other)
            and len(one) == len(other)
            and all(same(a, b, rtol) for a, b in zip(one, other, strict=True))
        )
    if isinstance(one, Misfit) or isinstance(other, Misfit):
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and same(tuple(one.values()), tuple(other.values()), rtol)
    if isinstance(one, (Foreign, Tensor, str, dict, type(None))) or isinstance(other, (Foreign, str, dict, type(None))):
        return (one is None and other is None) or (isinstance(one, str) and isinstance(other, str) and one == other)
    if isinstance(one, (tuple, list)) or isinstance(other, (tuple, list)):
        return False
    if type(one) is int and type(other) is int:  # of any size
        return one == other
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape or one.dtype.kind not in WORDS or other.dtype.kind not in WORDS:
        return False
    if WORDS[one.dtype.kind] != WORDS[other.dtype.kind]:
        return False
    if one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    kind = np.complex128 if "c" in (one.dtype.kind, other.dtype.kind) else np.float64
    one, other = one.astype(kind), other.astype(kind)
    odd = ~np.isfinite(other)
    if not np.array_equal(odd, ~np.isfinite(one)):
        return False
    one, other = np.where(odd, 0, one), np.where(odd, 0, other)
    scale = float(np.abs(other).max(initial=0.0))
    return bool((np.abs(one - other) <= rtol * scale + FLOOR).all())


def _is_many(value: Any) -> bool:
    return isinstance(value, (tuple, list))


def describe(value: Any, deep: int = 2) -> str:
    """Return the type of a result in words, with `deep` levels of nested tuples and lists."""
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}" if value.ndim else f"a single {value.dtype}"
    if isinstance(value, Tensor):
        return "a torch tensor"
    if isinstance(value, Foreign):
        return f"an object of type {value.type_name[:60]}"
    if _is_many(value):
        told = deep and len(value) < 5 and any(_is_many(item) or isinstance(item, (Foreign, dict)) for item in value)
        inner = f" ({', '.join(describe(item, deep - 1) for item in value)})" if told else ""
        return f"a {type(value).__name__} of {len(value)}{inner}"
    return _a(type(value).__name__)


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _common_dtype(case: Case) -> np.dtype:
    floats = _float_dtypes(case)
    return np.result_type(*floats) if floats else np.dtype(np.float32)


def _where(name: str, value: np.ndarray, expected: np.ndarray, rtol: float) -> str:
    off = differing(value.astype(np.float64), expected, rtol) if value.dtype.kind == "f" else value != expected
    count, first = int(off.sum()), tuple(int(i) for i in np.argwhere(off)[0])
    if not first:
        return f"{name} {verb(name, 'is', 'are')} wrong"
    if count == off.size:
        return f"all {count} entries of {name} are wrong" if count > 1 else f"the only entry of {name} is wrong"
    if count == 1:
        return f"1 of the {off.size} entries of {name} is wrong, at index {first}"
    return f"{count} of the {off.size} entries of {name} are wrong, the first at index {first}"
