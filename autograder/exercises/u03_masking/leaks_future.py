"""Defines the exercise `leaks_future`, which tests whether an attention's outputs depend on later keys or values."""

import numpy as np

from ..kit import Leaf, by_columns, exercise, normal
from . import attentions
from .attentions import asked, in_units
from .leak_experiment import experiment


def leaks_future(attend, Q: normal("n d_k"), K: normal("n d_k"), V: normal("n d_v")) -> Leaf("bool", "the answer"):
    """Change all later keys and values in one call, for every position in turn.

    Rounding changes a row by 1e-14 of its size and a leak by a thousandth or more, so any threshold between is correct.
    """
    rng = np.random.default_rng(0)
    before = np.asarray(attend(Q, K, V))
    found = False
    for seen in range(1, len(Q)):
        keys, values = np.array(K, dtype=np.float64), np.array(V, dtype=np.float64)
        keys[seen:] += 3 * rng.standard_normal(keys[seen:].shape)
        values[seen:] += 3 * rng.standard_normal(values[seen:].shape)
        after = np.asarray(attend(Q, keys, values))
        found |= moves(after[:seen], before[:seen])
    return found


def moves(after, before, share=1e-6):
    """Return whether a row changes by more than this share of its size."""
    size = np.maximum(np.abs(after), np.abs(before)).max(axis=1, keepdims=True, initial=0)
    return bool((np.abs(after - before) > share * size).any())


ATTENTIONS = (
    ("values", "attention without a mask", attentions.everything),
    ("values", "causal attention", attentions.causal),
    ("values", "a leak through the values alone", attentions.smeared_values),
    ("values", "attention to a window of the past", attentions.window),
    ("values", "a leak through the keys alone", attentions.masked_after),
    ("values", "causal attention that mixes in later queries", attentions.later_queries),
    ("values", "every position sees one step ahead", attentions.one_ahead),
    ("values", "attention to the positions before, without the position itself", attentions.strict_past),
    ("values", "attention of every position to itself alone", attentions.itself),
    ("hidden leaks", "only the first position leaks, from the second", attentions.first_sees_second),
    ("hidden leaks", "only the last position leaks, into the one before it", attentions.last_but_one_sees_last),
    ("hidden leaks", "only the first position leaks, from the last", attentions.first_sees_last),
    ("sizes of change", "causal up to rounding", attentions.rounding),
    ("sizes of change", "a small leak", attentions.faint),
    ("sizes of change", "attention to a window, up to rounding", attentions.rounded_window),
)


def cases(case):
    def ask(criterion, label, attend, **more):
        drawn = case.draw(attend=None, **more)
        return case(criterion, label, **drawn | {"attend": asked(attend, drawn["K"], drawn["V"])})

    for at, (criterion, label, attend) in enumerate(ATTENTIONS):
        drawn = case.draw(attend=None)
        drawn["attend"] = asked(attend, drawn["K"], drawn["V"])
        layout = {"K": by_columns, "V": by_columns} if at % 3 == 2 else None
        yield case(criterion, label, **drawn, layout=layout)
        if attend is attentions.causal:  # the same shapes again, which exposes code that keeps an earlier output
            drawn |= {name: np.ascontiguousarray(drawn[name][::-1]) for name in "QKV"}
            yield case(criterion, f"{label}, other numbers", **drawn)
    for label, made in (
        ("a leak that only ever lowers the output", attentions.lowering),
        ("a leak that leaves the mean", attentions.cancelling),
    ):
        drawn = case.draw(attend=None)
        drawn["attend"] = asked(made(drawn["V"]), drawn["K"], drawn["V"])
        yield case("hidden leaks", label, **drawn)
    drawn = case.draw(attend=None)
    drawn["attend"] = asked(attentions.everything, drawn["K"], drawn["V"])
    drawn["K"][1:] = drawn["V"][1:] = 0
    yield case("hidden leaks", "a leak, and all later keys and values are 0", **drawn)
    for label, attend in (
        ("outputs of a billion, causal up to rounding", in_units(attentions.rounding, 9)),
        ("outputs of a billionth, a leak", in_units(attentions.one_ahead, -9)),
        ("large and small rows, causal up to rounding", in_units(attentions.rounding, 9, 0, -9)),
        ("a leak in a small row among large ones", in_units(attentions.last_but_one_sees_last, 9, -9)),
    ):
        yield ask("sizes of outputs", label, attend)
    yield ask("edge cases", "a single token (n = 1)", attentions.everything, n=1)
    yield ask("edge cases", "two tokens, a leak (n = 2)", attentions.everything, n=2)
    drawn = case.draw(attend=None, n=2)
    drawn["attend"] = asked(attentions.causal, drawn["K"], drawn["V"])
    yield case("edge cases", "two tokens, causal, float32 inputs", **drawn, dtype=np.float32)
    yield ask("hidden leaks", "only the second position leaks, from the third", attentions.second_sees_third, n=7)
    label = "only the third position from the end leaks, from the next one"
    yield ask("hidden leaks", label, attentions.third_last_sees_next, n=7)
    drawn = case.draw(attend=None)
    drawn["V"][:] = 0
    drawn["attend"] = asked(attentions.everything, drawn["K"], drawn["V"])
    yield case("hidden leaks", "a leak, and all values are 0", **drawn)
    yield ask("hidden leaks", "a leak of the second feature alone", attentions.one_feature, d_v=range(4, 8))
    drawn = case.draw(attend=None, n=7)
    drawn["V"][:3, 0] = 0
    drawn["attend"] = asked(in_units(attentions.subtracted, 9), drawn["K"], drawn["V"])
    yield case("sizes of outputs", "outputs of a billion, some near 0, causal up to rounding", **drawn)


def detect(
    attend,
    Q,
    K,
    V,
    *,
    change="KV",
    differs=moves,
    splits=lambda n: range(1, n),
    changed=lambda seen: slice(seen, None),
    compared=lambda seen: slice(0, seen),
):
    """Return whether new rows changed(seen) of the named arrays alter rows compared(seen), for any seen in splits(n).

    change: the arrays that are changed together; groups separated by commas are changed one after another.
    """
    rng = np.random.default_rng(7)
    before = np.asarray(attend(Q, K, V))
    for seen in splits(len(Q)):
        for together in change.split(","):
            arrays = {name: np.array(array, dtype=np.float64) for name, array in (("Q", Q), ("K", K), ("V", V))}
            for name in together:
                part = arrays[name][changed(seen)]
                part += 3 * rng.standard_normal(part.shape)
            after = np.asarray(attend(*arrays.values()))
            if differs(after[compared(seen)], before[compared(seen)]):
                return True
    return False


def absolute(after, before):
    return float(np.abs(after - before).max(initial=0)) > 1e-6


def of_the_largest(after, before):
    return bool(np.abs(after - before).max(initial=0) > 1e-6 * np.abs(before).max(initial=0))


def truncates(attend, Q, K, V):
    before = attend(Q, K, V)
    return any(moves(attend(Q[:seen], K[:seen], V[:seen]), before[:seen]) for seen in range(1, len(Q)))


MISTAKES = (
    ("keys-only", {"change": "K"},
     "You change only keys. A leak can also run through the values."),
    ("values-only", {"change": "V"},
     "You change only values. A leak can also run through the keys."),
    ("queries-too", {"change": "QKV"},
     "You also change later queries. Only later keys and values matter, so leave Q as it is."),
    ("changes-the-present", {"splits": lambda n: range(n - 1), "compared": lambda seen: slice(0, seen + 1)},
     "You also change the key and value of the position itself. A position may look at itself; change what comes "
     "after it."),
    ("compares-all-rows", {"compared": lambda seen: slice(None)},
     "You compare all outputs, also those at and after the change, which may well depend on it. Compare the earlier "
     "ones."),
    ("last-position-only", {"splits": lambda n: [n - 1] if n > 1 else []},
     "You change only the last key and value, so a leak from an earlier position stays unseen."),
    ("first-output-only", {"compared": lambda seen: slice(0, 1)},
     "You compare only the first output. Later positions can leak while the first does not."),
    ("one-step-only", {"compared": lambda seen: slice(seen - 1, seen), "changed": lambda seen: slice(seen, seen + 1)},
     "You compare each output only after a change of the very next position. A leak can come from further ahead."),
    ("no-tolerance", {"differs": lambda after, before: not np.array_equal(after, before)},
     "You count any difference as a leak, even one of rounding. Allow for differences far below a thousandth of the "
     "outputs."),
    ("loose-tolerance", {"differs": lambda after, before: moves(after, before, 2e-2)},
     "Your tolerance is so wide that a small but real leak slips through. A thousandth of the outputs' size is a "
     "leak."),
    ("absolute-tolerance", {"differs": absolute},
     "Your tolerance is the same number whatever the outputs are. In a row near a billion, rounding exceeds it; in a "
     "row near a billionth, even a leak cannot."),
    ("tolerance-of-the-largest", {"differs": of_the_largest},
     "You compare all rows with the largest output. A small row can leak next to a large one, so use its own size."),
    ("keys-and-values-apart", {"change": "K,V"},
     "You call `attend` too often. It answers only as many calls as there are positions. Which of your calls "
     "could you combine?"),
    ("refused-arrays", truncates,
     "`attend` refused your arrays. It may hold a mask for exactly n positions, so call it only with finite arrays "
     "of the given shapes."),
    ("inverted", lambda attend, Q, K, V: not detect(attend, Q, K, V),
     "You swapped the answers. True means that the future leaks."),
    ("changes-the-past", {"changed": lambda seen: slice(0, seen), "compared": lambda seen: slice(seen, None)},
     "You change the past and compare the present. Every attention depends on its past, so change what comes after."),
    ("single-token-leaks", lambda attend, Q, K, V: len(Q) == 1 or detect(attend, Q, K, V),
     "With a single token there is no future, so nothing can leak, and your function should return False for n = 1."),
)  # fmt: skip

EXERCISE = exercise(
    leaks_future,
    credit={"values": 0.45, "hidden leaks": 0.2, "sizes of change": 0.15, "sizes of outputs": 0.15, "edge cases": 0.05},
    sizes=range(2, 8),
    ranges={"n": range(4, 8)},
    slipped=detect,
    experiment=experiment,
)
