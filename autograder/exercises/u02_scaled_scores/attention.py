"""Defines the exercise `attention`, which averages the values with softmax weights of the scaled scores."""

import numpy as np
import scipy.special

from ..kit import Leaf, by_columns, every_second_row, exercise, normal, strided
from .parts import DIGITS, alike, cosine, for_scores, near, stable, unstable
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
    yield case("values", "many queries and keys (n = {n}, m = {m})", n=range(33, 38), m=range(41, 46), d_k=range(5, 9))
    yield case("values", "inputs that are slices", layout={"Q": every_second_row, "K": by_columns, "V": strided})
    yield case("edge cases", "a single query (n = 1)", n=1)
    yield case("edge cases", "a single key (m = 1)", m=1)
    yield case("edge cases", "values of width 1 (d_v = 1)", d_v=1)
    for _ in range(2):
        yield case("stability", "scores of several thousand", Q=normal("n d_k", 50), K=normal("m d_k", 50))
    long = {"n": range(10, 15), "m": range(131, 140), "d_k": 1, "d_v": 2}
    yield case("values", "one feature, over 100 keys (n = {n}, m = {m})", **long)
    rows = alike(case.rng.standard_normal((6, 4)))
    values = normal("m d_v")
    drawn = case.draw(m=6, d_v=3)
    drawn["V"][-3] = 0
    label = "queries and keys that are the same, one is zeros and two are equal; a value of zeros"
    yield case("edge cases", label, Q=rows, K=rows.copy(), V=drawn["V"])
    keys = for_scores(rows[0], case.rng.permutation(np.linspace(-16, 0, 9)))
    label = "the queries of the case before, keys of which some get a weight of about a millionth"
    yield case("edge cases", label, Q=rows, K=keys, V=values, d_v=3, rtol=DIGITS)
    label = "queries and keys of the case before, values of about 10,000"
    yield case("edge cases", label, Q=rows, K=keys, V=normal("m d_v", 1e4), d_v=3)
    yield case("stability", "one query's scores near 10,000, the next one's near -10,000", **near(1e4, case.draw()))
    label = "float32, one query's scores near 120, the next one's near -120"
    yield case("stability", label, dtype=np.float32, **near(120, case.draw()))


def attend(weigh):
    """Return an attention whose weights are `weigh(scores)`."""

    def wrong(Q, K, V):
        with np.errstate(all="ignore"):
            weights = weigh(scaled_scores(Q, K))
        return weights @ V, weights

    return wrong


def divided_by_d(Q, K, V):
    weights = stable(Q @ K.T / Q.shape[1])
    return weights @ V, weights


def scaled_after_softmax(Q, K, V):
    weights = stable(Q @ K.T)
    return weights @ V / np.sqrt(Q.shape[1]), weights / np.sqrt(Q.shape[1])


def of_cosines(Q, K, V):
    weights = stable(cosine(Q, K))
    return weights @ V, weights


def best_value_only(Q, K, V):
    weights = stable(scaled_scores(Q, K))
    return V[weights.argmax(axis=1)], weights


MISTAKES = (
    ("divides-by-d", divided_by_d,
     "You divide the scores by d_k, or by √d_k twice. Divide by √d_k once."),
    ("softmax-over-queries", attend(lambda S: stable(S, axis=0)),
     "Your softmax runs over the queries. Each query shares out its attention among the keys."),
    ("results-swapped", lambda Q, K, V: attention(Q, K, V)[::-1],
     "You swap output and weights. Return them as `return output, weights`."),
    ("scaled-after-softmax", scaled_after_softmax,
     "You divide the weights by √d_k after the softmax. Divide the scores before it."),
    ("hard-attention", attend(lambda S: np.equal(S, S.max(axis=1, keepdims=True)).astype(float)),
     "Each of your queries takes only one key. The softmax shares the attention out."),
    ("epsilon-added", attend(lambda S: stable(S, epsilon=1e-3)),
     "You add a small number to the sum of the softmax, so the weights no longer add up to 1."),
    ("causal", attend(lambda S: stable(np.where(np.tri(*S.shape, dtype=bool), S, -1e30))),
     "You hide the future. Here every query may attend to every key; masks come in unit 3."),
    ("nan-replaced", attend(lambda S: np.nan_to_num(unstable(S))),
     "You replace NaN by zeros after the overflow. Avoid the overflow itself."),
    ("cosine", of_cosines,
     "You bring queries and keys to length 1. The scores are dot products, divided by √d_k."),
    ("best-value-only", best_value_only,
     "Your weights are right, but your output takes only the value of the best key. It should mix the values."),
    ("not-itself", attend(lambda S: stable(np.where(np.eye(*S.shape, dtype=bool), -1e30, S))),
     "You hide the diagonal. Here every query may attend to every key, and query i has no special key."),
)  # fmt: skip

EXERCISE = exercise(
    attention,
    credit={"values": 0.6, "edge cases": 0.2, "stability": 0.2},
    sizes=range(3, 11),
    contains=("attention_scores", "scaled_scores"),
)
