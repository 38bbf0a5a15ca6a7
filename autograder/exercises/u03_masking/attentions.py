"""Defines the attentions that `leaks_future` gets: some leak, some don't, and some only seem to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import scipy.special

from ..kit import DevicePart, black_box

Array = np.ndarray
#: Maps (Q, K, V) to the output.
Attend = Callable[[Array, Array, Array], Array]


def asked(attend: Attend, K: Array, V: Array) -> DevicePart:
    """Make a black box of `attend` that takes finite arrays of these shapes and answers one call per position."""
    shapes = {"Q": K.shape, "K": K.shape, "V": V.shape}

    def check(Q: Array, K: Array, V: Array) -> None:
        for name, array in (("Q", Q), ("K", K), ("V", V)):
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuf":
                raise ValueError(f"attend takes three arrays of numbers; {name} is none")
            if array.shape != shapes[name]:
                raise ValueError(f"attend holds a mask: {name} must keep its shape {shapes[name]}")
            if not np.isfinite(array).all():
                raise ValueError(f"attend takes finite numbers: {name} holds NaN or infinity")

    return black_box(lambda Q, K, V: attend(*(x.astype(np.float64) for x in (Q, K, V))), check, len(K))


def in_units(attend: Attend, *powers: int) -> Attend:
    """Scale the output rows of `attend` by these powers of 10, from the last row backwards, repeating the powers."""
    return lambda Q, K, V: attend(Q, K, V) * 10.0 ** np.resize(powers, (len(Q), 1))[::-1]


def looking(seen: Callable[[int, int], Iterable[int]]) -> Attend:
    """Return an attention in which query i of n uses only the positions `seen(i, n)`.

    The others are not even read, so they cannot change the output by a rounding error.
    """

    def attend(Q: Array, K: Array, V: Array) -> Array:
        output = np.zeros((len(Q), V.shape[-1]))
        for i, query in enumerate(Q):
            positions = list(seen(i, len(Q)))
            if positions:
                weights = scipy.special.softmax(K[positions] @ query / math.sqrt(len(query)))
                output[i] = weights @ V[positions]
        return output

    return attend


everything = looking(lambda i, n: range(n))
causal = looking(lambda i, n: range(i + 1))
window = looking(lambda i, n: range(max(0, i - 1), i + 1))
itself = looking(lambda i, n: [i])
strict_past = looking(lambda i, n: range(i))
one_ahead = looking(lambda i, n: range(min(i + 2, n)))
first_sees_second = looking(lambda i, n: range(max(i + 1, 2)))
first_sees_last = looking(lambda i, n: [0, n - 1] if i == 0 else range(i + 1))
second_sees_third = looking(lambda i, n: range(i + 2 if i == 1 else i + 1))
third_last_sees_next = looking(lambda i, n: range(i + 2 if i == n - 3 else i + 1))
last_but_one_sees_last = looking(lambda i, n: range(n if i == n - 2 else i + 1))


def smeared_values(Q: Array, K: Array, V: Array) -> Array:
    """Mix every value with the next one; the weights are causal."""
    return causal(Q, K, V + 0.5 * _behind(V))


def _behind(V: Array) -> Array:
    """Shift the rows of V up by one and end with zeros."""
    return np.concatenate([V[1:], np.zeros_like(V[:1])])


def one_feature(Q: Array, K: Array, V: Array) -> Array:
    """Leak the next value into the second feature of each output, from the second feature only."""
    output = causal(Q, K, V)
    output[:, 1] += 0.5 * _behind(V)[:, 1]
    return output


def subtracted(Q: Array, K: Array, V: Array) -> Array:
    """Compute causal sums as the whole sum minus its later part, so that they have the whole sum's rounding errors.

    The scores are capped, and the two sums run in opposite orders.
    """
    powers = np.exp(np.tanh(Q @ K.T / math.sqrt(Q.shape[-1])))
    later = np.triu(powers, 1)
    return (powers[:, ::-1] @ V[::-1] - later @ V) / np.tril(powers).sum(axis=1, keepdims=True)


def masked_after(Q: Array, K: Array, V: Array) -> Array:
    """Mask after the softmax, so that later keys change the sum of the weights but later values change nothing."""
    weights = scipy.special.softmax(Q @ K.T / math.sqrt(Q.shape[-1]), axis=-1)
    return np.stack([weights[i, : i + 1] @ V[: i + 1] for i in range(len(V))])


def later_queries(Q: Array, K: Array, V: Array) -> Array:
    return causal(Q + Q[::-1] + Q.mean(axis=0), K, V)


def rounded(attend: Attend) -> Attend:
    """Change the output of `attend` by relative differences of 1e-14, as another order of summation would."""

    def rippled(Q: Array, K: Array, V: Array) -> Array:
        output = attend(Q, K, V)
        ripple = np.sin(1e3 * (K.sum() + V.sum()) + np.arange(output.size)).reshape(output.shape)
        return output * (1 + 1e-14 * ripple)

    return rippled


rounding, rounded_window = rounded(causal), rounded(window)


def faint(Q: Array, K: Array, V: Array) -> Array:
    """Leak a few thousandths of the next value into a causal output."""
    return causal(Q, K, V) + 3e-3 * np.tanh(_behind(V))


def lowering(V_0: Array) -> Attend:
    """Lower every output by how far the next value is from the one in `V_0`, so that no change of values raises it."""
    return lambda Q, K, V: causal(Q, K, V) - _behind(np.abs(V - V_0))


def cancelling(V_0: Array) -> Attend:
    """Add the change of the next value to the first feature and subtract it from the second, so that the mean stays."""

    def attend(Q: Array, K: Array, V: Array) -> Array:
        output = causal(Q, K, V)
        change = np.abs(V - V_0).sum(axis=1)[1:]
        output[:-1, 0] += change
        output[:-1, 1] -= change
        return output

    return attend
