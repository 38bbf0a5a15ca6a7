"""attention: the values, mixed by softmax weights of the scaled scores."""

import math

import numpy as np
import scipy.special

from ..kit import Leaf, by_columns, every_second_row, exercise, normal, strided
from .parts import cosine, stable, unstable
from .scaled_scores import plain as plain_scores
from .scaled_scores import scaled_scores
from .softmax import plain as softmax


def attention(
    Q: normal("n d_k"), K: normal("m d_k"), V: normal("m d_v")
) -> (
    Leaf("float array", "the output"),
    Leaf("float array", "the weights", rows_sum_to_one=True),
):
    weights = scipy.special.softmax(scaled_scores(Q, K), axis=-1)
    return np.einsum("nm,md->nd", weights, V), weights


def plain(Q, K, V):
    scores = plain_scores(Q, K)
    weights = softmax(scores, axis=-1)
    output = weights @ V
    return output, weights


def cases(case):
    for dtype in (float, np.float32):
        yield case("values", "n = {n}, m = {m}, d_k = {d_k}, d_v = {d_v}", dtype=dtype)
    yield case("values", "self-attention sizes (m = n)", m="n")
    yield case("values", "n = m = d_k = d_v", m="n", d_k="n", d_v="n")
    yield case("values", "many features (d_k = 64)", d_k=64)
    yield case("values", "inputs that are slices", layout={"Q": every_second_row, "K": by_columns, "V": strided})
    yield case("edge cases", "a single query (n = 1)", n=1)
    yield case("edge cases", "a single key (m = 1)", m=1)
    yield case("edge cases", "values one wide (d_v = 1)", d_v=1)
    for _ in range(2):
        yield case("stability", "scores of several thousand", Q=normal("n d_k", 50), K=normal("m d_k", 50))


def attend(weigh):
    """Attention whose weights are `weigh(scores)`."""

    def wrong(Q, K, V):
        with np.errstate(all="ignore"):
            weights = weigh(scaled_scores(Q, K))
        return weights @ V, weights

    return wrong


def over(divisor):
    """Attention whose dot products are divided by `divisor(Q, K, V)`."""

    def wrong(Q, K, V):
        weights = stable(Q @ K.T / divisor(Q, K, V))
        return weights @ V, weights

    return wrong


def over_width(divisor):
    """Attention whose dot products are divided by `divisor(d_k)`."""
    return over(lambda Q, K, V: divisor(Q.shape[1]))


def showing(other):
    """The right output, and beside it `other(Q, K)` for the weights."""
    return lambda Q, K, V: (attention(Q, K, V)[0], other(Q, K))


def passing(other):
    """The right weights, and beside them `other(weights, K, V)` for the output."""
    return lambda Q, K, V: (other(right_weights(Q, K), K, V), right_weights(Q, K))


def right_weights(Q, K):
    return stable(scaled_scores(Q, K))


def powers(S):
    return np.exp(S - S.max(axis=1, keepdims=True))


def scaled_output(Q, K, V):
    weights = stable(Q @ K.T)
    return weights @ V / np.sqrt(Q.shape[1]), weights


def swapped(Q, K, V):
    weights = right_weights(K, Q)
    return weights @ V[: len(Q)], weights


MISTAKES = (
    ("unstable-softmax", attend(unstable),
     "The exponentials overflow or vanish for large scores: the softmax needs its shift."),
    ("global-shift", attend(lambda S: unstable(S - S.max())),
     "The largest score of the whole matrix was subtracted: rows of much smaller scores vanish."),
    ("no-scale", over_width(lambda d: 1),
     "The scores were not divided by √d_k."),
    ("divides-by-d", over_width(lambda d: d),
     "The scores were divided by d_k, or by √d_k twice, where its square root is due once."),
    ("multiplies", over_width(lambda d: 1 / np.sqrt(d)),
     "The scores were multiplied by √d_k in place of being divided."),
    ("root-of-d_v", over(lambda Q, K, V: np.sqrt(V.shape[1])),
     "The root of the values' width was taken. The width of queries and keys counts."),
    ("root-of-queries", over(lambda Q, K, V: np.sqrt(len(Q))),
     "The root of the number of queries was taken. The width of queries and keys counts."),
    ("root-of-keys", over(lambda Q, K, V: np.sqrt(len(K))),
     "The root of the number of keys was taken. The width of queries and keys counts."),
    ("hard-coded", over_width(lambda d: 8.0),
     "The scores were divided by a fixed number, 8, which is right for d_k = 64 alone."),
    ("softmax-over-queries", attend(lambda S: stable(S, axis=0)),
     "The softmax runs over the queries. Each query shares out its attention among the keys."),
    ("softmax-over-everything", attend(lambda S: stable(S.ravel()).reshape(S.shape)),
     "All weights together have the sum 1. Each row has."),
    ("no-softmax", attend(lambda S: S),
     "The scores themselves were used as weights: the softmax is missing."),
    ("returns-scores", showing(scaled_scores),
     "The output is right; beside it stand the scores. The weights are what the softmax makes of them."),
    ("results-swapped", lambda Q, K, V: attention(Q, K, V)[::-1],
     "Output and weights have changed places: `return output, weights`."),
    ("output-only", lambda Q, K, V: attention(Q, K, V)[0],
     "Only the output comes back. Return the weights too."),
    ("scaled-output", scaled_output,
     "The output was scaled, not the scores: the root belongs inside the softmax."),
    ("scaled-after-softmax", lambda Q, K, V: tuple(A / np.sqrt(Q.shape[1]) for A in over_width(lambda d: 1)(Q, K, V)),
     "The weights were divided by √d_k after the softmax, not the scores before it."),
    ("values-are-keys", passing(lambda weights, K, V: weights @ K),
     "The keys were mixed. What is passed on are the values."),
    ("queries-and-keys-swapped", swapped,
     "Queries and keys have changed places: a row of the weights belongs to a query."),
    ("weights-transposed-for-output", passing(lambda weights, K, V: weights.T @ V),
     "The weights were transposed before they met the values."),
    ("plain-average", attend(lambda S: np.full(S.shape, 1 / S.shape[1])),
     "All keys weigh the same: the scores are not used."),
    ("hard-attention", attend(lambda S: np.equal(S, S.max(axis=1, keepdims=True)).astype(float)),
     "Each query takes one key alone. The softmax shares the attention out."),
    ("epsilon-added", attend(lambda S: stable(S, epsilon=1e-3)),
     "A small number was added to the sum of the softmax, so the weights no longer add up to 1."),
    ("list-for-tuple", lambda Q, K, V: [*attention(Q, K, V)],
     "The function returns a list. Return a tuple: `return output, weights`."),
    ("causal", attend(lambda S: stable(np.where(np.tri(*S.shape, dtype=bool), S, -1e30))),
     "The future is hidden. Here every query may attend to every key; masks come in unit 3."),
    ("clipped", attend(lambda S: unstable(np.clip(S, -500, 500))),
     "The scores were clipped. Beyond the clip all scores become equal, and so do their weights."),
    ("nan-replaced", attend(lambda S: np.nan_to_num(unstable(S))),
     "Overflow was covered up: NaN was replaced by zeros afterwards. Avoid the overflow in place of its traces."),
    ("square-of-d", over_width(lambda d: d**2),
     "The scores were divided by the square of d_k, not by its square root."),
    ("fourth-root", over_width(lambda d: d**0.25),
     "The fourth root of d_k was taken."),
    ("hard-coded-512", over_width(lambda d: math.sqrt(512)),
     "The scores were divided by a fixed number, the root of 512. Any width must be served."),
    ("hard-coded-2", over_width(lambda d: 2),
     "The scores were divided by a fixed number, 2, which is right for d_k = 4 alone."),
    ("wrong-sign", attend(lambda S: stable(-S)),
     "The scores have the wrong sign: the worst match weighs most."),
    ("absolute", attend(lambda S: stable(np.abs(S))),
     "The signs of the scores are lost: a key that points the other way gets much weight."),
    ("positive-part", attend(lambda S: stable(np.maximum(S, 0))),
     "Negative scores were cut off before the softmax."),
    ("base-two", attend(lambda S: stable(S, power=np.exp2)),
     "Powers of 2 were taken. The softmax takes powers of e."),
    ("softmax-twice", attend(lambda S: stable(stable(S))),
     "The softmax was taken twice."),
    ("cosine", lambda Q, K, V: (stable(cosine(Q, K)) @ V, stable(cosine(Q, K))),
     "Queries and keys were brought to length 1. The scores are dot products, divided by √d_k."),
    ("weights-not-scaled", showing(lambda Q, K: stable(Q @ K.T)),
     "The output is right; the weights beside it are those of the plain scores. Return the weights that you used."),
    ("powers-as-weights", showing(lambda Q, K: powers(scaled_scores(Q, K))),
     "The output is right; the weights beside it are not divided by their sum. Return the weights that you used."),
    ("never-divided-by-sum", attend(powers),
     "The exponentials were not divided by their sum."),
    ("values-summed", passing(lambda weights, K, V: np.tile(V.sum(axis=0), (len(weights), 1))),
     "The weights are right, and the output does not use them: all values were added up."),
    ("values-averaged", passing(lambda weights, K, V: np.tile(V.mean(axis=0), (len(weights), 1))),
     "The weights are right, and the output does not use them: all values were averaged."),
    ("best-value-only", passing(lambda weights, K, V: V[weights.argmax(axis=1)]),
     "The weights are right, and the output takes the value of the best key alone. It is a mixture."),
    ("not-itself", attend(lambda S: stable(np.where(np.eye(*S.shape, dtype=bool), -1e30, S))),
     "The diagonal is hidden. Here every query may attend to every key, and no two belong together."),
)  # fmt: skip

EXERCISE = exercise(
    attention,
    cases,
    MISTAKES,
    credit={"values": 0.6, "edge cases": 0.2, "stability": 0.2},
    core="values",
    plain=plain,
    sizes=range(3, 11),
    contains=("attention_scores", "scaled_scores"),
)
