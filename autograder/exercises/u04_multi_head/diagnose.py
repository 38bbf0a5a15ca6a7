"""Defines the exercise `diagnose`, which finds out from one call which of thirteen layers a black box contains."""

import itertools

import torch
import torch.nn.functional as F

from .. import attention_parts as parts
from ..kit import Leaf, black_box, exercise
from .suspect_experiment import told_by
from .suspects import FORBIDDEN_SCORE, SUSPECTS, WINDOW, check, line_up

CALLS = 1


def diagnose(attend) -> Leaf("text", "the name"):
    return hunt(attend, ({},))


def cases(case):
    asked = [
        *itertools.repeat(("right ones and plain bugs", "right"), case.rng.integers(5, 9)),
        *itertools.product(["right ones and plain bugs"], ["not_scaled", "keys_and_values_swapped"] * 2),
        *itertools.product(["the scale"], ["scaled_by_d", "scaled_by_d_model"] * 2),
        *itertools.product(["the mask"], ["softmax_over_queries", "causal_off_by_one", "mask_after_softmax"] * 2),
        *itertools.product(["the heads"], ["heads_not_by_columns", "one_head_for_all"] * 2),
        *itertools.product(["rare ones"], ["not_stabilised", "masked_by_a_number", "window_of_8"] * 2),
    ]
    for at in case.rng.permutation(len(asked)):  # so that code that counts its calls learns nothing
        criterion, name = asked[at]
        box = black_box(line_up(name, case.rng), check, CALLS)
        yield case(criterion, SUSPECTS[name], attend=box)


# ---------------------------------------------------------------------------------------------------------------------
# Experiments, and the output of each suspect


def experiment(*, B=2, n=10, d_model=7, h=3, d_head=2, causal=True, size=1.0, deep=150.0, prepare=None):
    """Return the arguments of one call, with scores of order 1 in the first sequence and far below 0 in the second.

    The last feature of X is 0 in the first sequence and `deep` in the others; it counts for every query and against
    every key.
    """
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    X, width = draw(B, n, d_model), h * d_head
    W_Q, W_K, W_V = (size * 1.3 * draw(d_model, width) / d_model**0.5 for _ in range(3))
    for W, feature in ((W_Q, 1.0), (W_K, -1.0), (W_V, 0.0)):
        W[-1] = feature
    X[..., -1] = torch.tensor([0.0, *[deep] * (B - 1)], dtype=torch.float64)[:, None]
    inputs = [X, W_Q, W_K, W_V, draw(width, d_model) / width**0.5]
    return *(prepare(*inputs) if prepare else inputs), h, causal


def expected(name, X, W_Q, W_K, W_V, W_O, n_heads, causal):
    """Return the output of the suspect of this name, from torch's own attention wherever possible."""
    _, n, d_model = X.shape
    h = 1 if name == "one_head_for_all" else n_heads
    by_reshape = name == "heads_not_by_columns"
    split, merge = (parts.split_reshaped, parts.merge_reshaped) if by_reshape else (parts.split, parts.merge)
    Q, K, V = (split(X @ W, h) for W in (W_Q, W_K, W_V))
    if name == "keys_and_values_swapped":
        K, V = V, K
    d = Q.shape[-1]
    scale = {"not_scaled": 1.0, "scaled_by_d": 1 / d, "scaled_by_d_model": d_model**-0.5}.get(name, d**-0.5)
    seen = torch.ones(n, n, dtype=torch.bool)
    seen = seen.tril(int(name == "causal_off_by_one")) if causal else seen
    if name == "softmax_over_queries":
        scores = (Q @ K.mT * scale).masked_fill(~seen, -torch.inf)
        return merge(torch.softmax(scores, -2) @ V) @ W_O
    if name == "window_of_8" and causal:
        seen = seen.triu(1 - WINDOW)
    if name == "not_stabilised":
        powers = torch.exp(Q @ K.mT * scale) * seen
        return merge(powers / powers.sum(-1, keepdim=True) @ V) @ W_O
    if name == "masked_by_a_number":
        return merge(torch.softmax((Q @ K.mT * scale).masked_fill(~seen, FORBIDDEN_SCORE), -1) @ V) @ W_O
    if name == "mask_after_softmax":
        return merge((torch.softmax(Q @ K.mT * scale, -1) * seen) @ V) @ W_O
    return merge(F.scaled_dot_product_attention(Q, K, V, attn_mask=seen, scale=scale)) @ W_O


def near(one, other, tolerance=1e-6):
    """Return whether two outputs have NaN and infinity in the same rows, and agree in all others."""
    whole = other.isfinite().all(-1)
    if not torch.equal(one.isfinite().all(-1), whole):
        return False
    return not whole.any() or float((one - other)[whole].abs().max()) <= tolerance * float(other[whole].abs().max())


def hunt(attend, experiments, names=tuple(SUSPECTS), tolerance=1e-6):
    """Return the first of `names` whose output equals the box's in every experiment; stop when one name is left.

    experiments: keyword arguments of `experiment`.
    """
    left = list(names)
    for settings in experiments:
        inputs = experiment(**settings)
        found = attend(*inputs)
        left = [name for name in left if near(found, expected(name, *inputs), tolerance)] or ["right"]
        if len(left) == 1:
            break
    return left[0]


# ---------------------------------------------------------------------------------------------------------------------
# Experiments that can't tell the suspects apart


def only_whole_outputs(attend):
    """Return the nearest suspect, where a difference of NaN counts as infinite."""
    inputs = experiment()
    found = attend(*inputs)
    far = {name: float((found - expected(name, *inputs)).abs().nan_to_num(torch.inf).max()) for name in SUSPECTS}
    return min(far, key=far.get)


def by(*experiments, **options):
    return lambda attend: hunt(attend, experiments, **options)


def equal_rows(X, *weights):
    return X[:, :1].expand_as(X).contiguous(), *weights


def one_matrix(X, W_Q, W_K, W_V, W_O):
    return X, W_Q, W_Q, W_Q, W_O


def only_first_head(X, *weights):
    """Keep only the first head of width 2, by zeros in all other columns of W_Q, W_K and W_V and rows of W_O."""
    *W_QKV, W_O = (W.clone() for W in weights)
    for W in (*W_QKV, W_O.T):
        W[:, 2:] = 0
    return X, *W_QKV, W_O


MISTAKES = (
    ("square-sizes", by({"d_model": 4, "h": 2}),
     "Two suspects divide by the same number in your experiment. Work out what each suspect divides by."),
    ("square-sizes-other-name", by({"d_model": 4, "h": 2}, names=tuple(reversed(SUSPECTS))),
     "Two suspects divide by the same number in your experiment. Work out what each suspect divides by."),
    ("one-token", by({"n": 1}),
     "You use a single token, which has nothing to choose from. What can a softmax of one number show?"),
    ("one-head", by({"h": 1, "d_head": 4}),
     "You miss bugs in the heads. Does your experiment have more than one head?"),
    ("never-causal", by({"causal": False}),
     "You miss bugs in the mask. Does the mask hide anything from the rows that you compare?"),
    ("equal-rows", by({"prepare": equal_rows}),
     "All tokens of your experiment are the same, so any average of them is the same, too."),
    ("two-calls", by({"causal": False}, {}),
     "You make two calls, but only one is allowed. What would a single call have to contain to show what both "
     "show?"),
    ("ordinary-scores", by({"deep": 0.0}),
     "Your inputs give only scores of ordinary size, which don't show some of the bugs. Which of the bugs have to "
     "do with large numbers?"),
    ("nan-unseen", only_whole_outputs,
     "You report no bug in layers that return NaN for your experiment. How do you compare NaN with NaN?"),
    ("few-tokens", by({"n": 5}),
     "You miss a bug that shows only in longer sequences."),
    ("heads-one-wide", by({"d_head": 1}),
     "You miss some bugs in the scale. What does each suspect divide by in your experiment?"),
    ("d-model-is-d-head", by({"d_model": 4, "d_head": 4}),
     "You miss one of the bugs in the scale. What does each suspect divide by in your experiment?"),
    ("scores-too-small", by({"size": 1e-4, "deep": 0.0}, tolerance=1e-5),
     "You miss bugs in the scale. Does the scale make a difference with your numbers, in the rows that you "
     "compare?"),
    ("scores-too-large", by({"size": 1e3}),
     "Your scores are so large that they give all weight to one key, whatever they are divided by."),
    ("one-matrix-for-all", by({"prepare": one_matrix}),
     "You miss swapped keys and values. Could your experiment show that they are swapped?"),
    ("first-head-alone", by({"h": 2, "prepare": only_first_head}),
     "You set all heads but one to 0, so you see only a scale, and two suspects can have the same one."),
)  # fmt: skip

EXERCISE = exercise(
    diagnose,
    credit={
        "right ones and plain bugs": 0.3,
        "the scale": 0.15,
        "the mask": 0.15,
        "the heads": 0.15,
        "rare ones": 0.25,
    },
    library="torch",
    forbidden=("autograder",),
    counted=("attend",),
    own_draws=True,
    experiment=told_by(expected),
)
