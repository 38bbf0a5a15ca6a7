"""The judge, on a small exercise of its own: what it accepts, what it rejects, and what it names."""

from __future__ import annotations

import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from selectors import BaseSelector

import numpy as np
import pytest

from autograder.diagnosis.diagnose import judge
from autograder.diagnosis.known_mistakes import is_refuted
from autograder.exercises import find_exercise
from autograder.exercises.kit import Case, Exercise, HostFunction, Leaf, Mistake, Raises, Rng
from autograder.grading.in_process import ask_here, is_right
from autograder.judging.hidden_cases import pose
from autograder.records import Answer, Call


def scores(Q, K):
    return Q @ K.T / np.sqrt(Q.shape[-1])


def draw(rng):
    cases = []
    for criterion, n, m, d in [("values", 3, 4, 5), ("values", 4, 6, 7), ("edge cases", 1, 3, 2)]:
        args = (rng.standard_normal((n, d)), rng.standard_normal((m, d)))
        cases.append(Case(criterion, f"n = {n}", args, sizes={"n": n, "m": m, "d_k": d}))
    Q, K = (rng.standard_normal((size, 6)).astype(np.float32) for size in (5, 4))
    cases.append(Case("values", "float32", (Q, np.asfortranarray(K)), sizes={"n": 5, "m": 4, "d_k": 6}))
    return cases


EXERCISE = Exercise(
    "scores",
    "00_test",
    Leaf("float array", "scores"),
    scores,
    draw,
    {"values": 0.7, "edge cases": 0.3},
    (Mistake("divides-by-d", "You divided by d.", lambda Q, K: Q @ K.T / Q.shape[-1]),),
)


def verdict_of(function, exercise=EXERCISE, seed=7):
    posed = pose(exercise, seed)
    return judge(posed, ask_here(function, posed))


def test_a_wrong_answer_is_asked_no_more_than_shows_it():
    asked = []

    def answer(mistaken):
        def softmax(z, axis=-1):
            asked.append(z.shape)
            powers = np.exp(z - z.max(axis=axis, keepdims=True))
            return powers / powers.sum(axis=0 if mistaken else axis, keepdims=True)

        return softmax

    assert is_right(answer(False), "softmax", 7)
    whole = len(asked)
    asked.clear()
    assert not is_right(answer(True), "softmax", 7)
    assert len(asked) < whole / 4


def test_a_known_mistake_is_put_to_the_cases_of_a_part():
    posed = pose(EXERCISE, 7)
    (slug,) = (mistake.slug for mistake in EXERCISE.mistakes)
    of_part, of_whole = posed.part([2]).mistaken(slug, 0), posed.mistaken(slug, 0)
    assert np.shape(of_part.value) == (4, 6)
    assert np.shape(of_whole.value) == (3, 4)


def loops(Q, K):
    print("a line of output")
    return np.array([[sum(a * b for a, b in zip(q, k, strict=True)) / len(q) ** 0.5 for k in K] for q in Q])


@pytest.mark.parametrize(
    "answer", [scores, loops, lambda Q, K: np.einsum("id,jd->ij", Q, K).astype(float) / Q.shape[1] ** 0.5]
)
@pytest.mark.parametrize("seed", range(5))
def test_right_answers_in_any_form_are_right(answer, seed):
    verdict = verdict_of(answer, seed=seed)
    assert (verdict.verdict, verdict.score) == ("right", 1.0), verdict.message


def in_place(Q, K):
    Q /= np.sqrt(Q.shape[-1])
    return Q @ K.T


def same_buffer(Q, K, store={}):  # noqa: B006
    buffer = store.setdefault((len(Q), len(K)), np.zeros((len(Q), len(K))))
    buffer[:] = scores(Q, K)
    return buffer


WRONG = {
    "divides-by-d": lambda Q, K: Q @ K.T / Q.shape[-1],
    "off-by-factor": lambda Q, K: Q @ K.T,
    "transposed": lambda Q, K: scores(Q, K).T,
    "returns-none": lambda Q, K: None,
    "wrong-sign": lambda Q, K: -scores(Q, K),
    "wrong-type": lambda Q, K: scores(Q, K).tolist(),
    "dtype-lost": lambda Q, K: scores(Q, K).astype(np.float32),
    "permuted": lambda Q, K: scores(Q, K)[::-1],
    "rows-shifted": lambda Q, K: scores(Q, K) + 1,
    "imprecise": lambda Q, K: scores(Q, K) * (1 + 1e-5),
    "nan": lambda Q, K: scores(Q, K) * np.nan,
    "not-repeatable": lambda Q, K: scores(Q, K) + np.random.rand(len(Q), 1),
    "wrong-shape": lambda Q, K: scores(Q, K)[None],
    "input-changed": in_place,
    "earlier-result-changed": same_buffer,
    "constant": lambda Q, K: np.ones((len(Q), len(K))),
}


@pytest.mark.parametrize("slug", WRONG)
def test_wrong_answers_are_rejected_and_named(slug):
    verdict = verdict_of(WRONG[slug])
    assert verdict.verdict == "wrong"
    assert verdict.score < 1
    assert verdict.mistake == slug, verdict.message


def share_above(threshold):
    return lambda x: (x > threshold).mean()


def shares(rng):
    """In the core every entry is above −2; in the edge case one is not."""
    core = [
        Case("values", f"{size} entries", (np.abs(rng.standard_normal(size)),), sizes={"n": size}) for size in (5, 8)
    ]
    return [*core, Case("edge cases", "a large negative one", (np.array([3.0, -3.0]),), sizes={"n": 2})]


def test_a_constant_is_said_to_be_one_though_a_known_mistake_gives_the_same_in_the_core():
    reference, credit = share_above(0.5), {"values": 0.7, "edge cases": 0.3}
    mistake = Mistake("too-low", "The threshold is too low.", share_above(-2.0))
    exercise = Exercise("share", "00_test", Leaf("float"), reference, shares, credit, (mistake,))
    for seed in range(5):
        assert verdict_of(lambda x: 1.0, exercise, seed).mistake == "constant"
        assert verdict_of(mistake.wrong, exercise, seed).mistake == "too-low"
    always = Mistake("all-counted", "All entries are counted.", lambda x: 1.0)
    assert verdict_of(lambda x: 1.0, replace(exercise, mistakes=(mistake, always))).mistake == "all-counted"


def test_a_result_of_zeros_speaks_for_no_change_of_the_inputs_and_for_no_further_step():
    def reference(x):
        return (x > 0).mean()

    def draw(rng):
        cases = [Case("values", "positive", (rng.random(size) + 0.1,), sizes={"n": size}) for size in (4, 6)]
        return [*cases, Case("edge cases", "large", (np.array([4.0, 5.0]),), sizes={"n": 2})]

    exercise = Exercise("share", "00_test", Leaf("float"), reference, draw, {"values": 0.7, "edge cases": 0.3}, ())
    assert verdict_of(lambda x: (x > 2).mean(), exercise).mistake is None


def batches(rng):
    def case(criterion, B, n):
        return Case(criterion, f"{B} sequences of {n}", (rng.standard_normal((B, n)),), sizes={"B": B, "n": n})

    return [
        case("values", 3, 4),
        case("values", 1, 5),
        case("values", 1, 3),
        case("values", 2, 6),
        case("edge cases", 2, 1),
    ]


def test_a_batch_is_blamed_only_where_no_batch_of_the_core_is_right():
    credit = {"values": 0.7, "edge cases": 0.3}
    exercise = Exercise("centred", "00_test", Leaf("float array"), lambda x: x - 1, batches, credit, ())
    assert verdict_of(lambda x: x - (1 if len(x) == 1 else x.std()), exercise).mistake == "single-batch-only"
    refuses = verdict_of(lambda x: x - 1 if x.shape[1] > 1 else 1 / 0, exercise)
    assert refuses.mistake == "fails-edge-cases", refuses.message


def test_an_answer_that_raises_is_crashed_and_its_message_says_why():
    verdict = verdict_of(lambda Q, K: 1 / 0)
    assert (verdict.verdict, verdict.score) == ("crashed", 0.0)
    assert "ZeroDivisionError" in verdict.message


def test_a_stub_is_missing():
    def stub(Q, K):
        raise NotImplementedError

    assert verdict_of(stub).verdict == "missing"


def test_a_librarys_not_implemented_error_is_no_stub():
    verdict = verdict_of(lambda Q, K: BaseSelector.register(None, Q, 0))
    assert verdict.verdict == "crashed" and "NotImplementedError" in verdict.message


def test_an_answer_right_but_for_the_edge_cases_earns_its_part():
    verdict = verdict_of(lambda Q, K: scores(Q, K) if len(Q) > 1 else np.zeros((1, len(K))))
    assert verdict.verdict == "wrong"
    assert verdict.score == pytest.approx(0.9 * 0.7 + 0.1)


def test_nothing_is_earned_without_the_core():
    assert verdict_of(lambda Q, K: scores(Q, K) if len(Q) == 1 else 0 * scores(Q, K)).score == 0


def test_an_unfinished_answer_is_timeout_and_keeps_no_points_for_what_it_did_not_answer():
    posed = pose(EXERCISE, 1)
    verdict = judge(posed, Answer("timeout", "It took too long."))
    assert (verdict.verdict, verdict.score) == ("timeout", 0.0)
    assert "took too long" in verdict.message


@pytest.mark.parametrize("again", [False, True], ids=["before it was asked again", "while it was asked again"])
def test_an_unfinished_answer_keeps_the_parts_that_it_finished_and_no_good_conduct(again):
    """Good conduct shows when everything has been asked; a part counts when all of its cases were answered."""
    posed = pose(EXERCISE, 1)
    whole = ask_here(scores, posed)
    for count, share in ((len(whole.calls), 1.0), (len(whole.calls) - 1, 0.0)):
        calls = [replace(call, again=call.again if again else None) for call in whole.calls[:count]]
        verdict = judge(posed, Answer("timeout", "It took too long.", calls))
        assert (verdict.verdict, verdict.score) == ("timeout", pytest.approx(0.9 * share))
        assert not verdict.criteria[-1].met


def test_what_cannot_be_compared_for_want_of_memory_is_crashed(monkeypatch):
    def greedy(*_):
        raise MemoryError

    monkeypatch.setattr("autograder.judging.cases_and_expected.problem_of", greedy)
    verdict = verdict_of(scores)
    assert (verdict.verdict, verdict.score) == ("crashed", 0.0) and "memory" in verdict.message


def test_an_infinite_entry_is_right_where_the_same_one_is_expected_and_nowhere_else():
    def log_of(x):
        with np.errstate(divide="ignore"):
            return np.log(x)

    def draw(rng):
        return [Case("values", f"{zeros} zeros", (np.append(np.zeros(zeros), rng.random(4)),)) for zeros in (2, 0)]

    exercise = Exercise("logs", "00_test", Leaf("float array", "logs"), log_of, draw, {"values": 1.0}, ())
    assert verdict_of(log_of, exercise).verdict == "right"
    for wrong, told in (
        (lambda x: np.nan_to_num(log_of(x)), "2 of the 6 entries of `logs` are wrong"),
        (lambda x: -log_of(x), "NaN or infinity"),
        (lambda x: np.where(x == 0, np.nan, log_of(x)), "NaN or infinity"),
        (lambda x: np.where(x < x.max(), -np.inf, log_of(x)), "NaN or infinity"),
        (lambda x: log_of(x) + 1e-3, "4 of the 6 entries of `logs` are wrong"),
    ):
        verdict = verdict_of(wrong, exercise)
        assert verdict.verdict == "wrong" and told in verdict.message, verdict.message


def test_messages_hold_no_expected_number():
    posed = pose(EXERCISE, 3)
    verdict = judge(posed, ask_here(lambda Q, K: scores(Q, K) + np.eye(len(Q), len(K)), posed))
    for outcome in posed.expected:
        for number in outcome.value.ravel():
            assert f"{number:.3f}" not in verdict.message


def test_generators_functions_and_asked_for_errors_reach_the_answer():
    def reference(rng, shift, n):
        if n < 0:
            raise ValueError(f"n is {n}")
        return shift(rng.standard_normal(n))

    def draw(rng):
        shift = HostFunction(lambda x: x + 1)
        return [
            Case("values", "two", (Rng(4), shift, 2)),
            Case("values", "three", (Rng(5), shift, 3)),
            Case("errors", "negative", (Rng(6), shift, -1), raises=Raises("ValueError", ("-1",))),
        ]

    exercise = Exercise("f", "00_test", Leaf("float array"), reference, draw, {"values": 0.5, "errors": 0.5}, ())
    assert verdict_of(reference, exercise).verdict == "right"
    assert verdict_of(lambda rng, shift, n: shift(rng.standard_normal(abs(n))), exercise).score == pytest.approx(0.55)


def test_several_threads_may_ask_for_known_mistakes_at_once():
    def prints_and_warns(Q, K):
        print("to be swallowed")
        time.sleep(0.002)
        warnings.warn("to be noted", RuntimeWarning, stacklevel=1)
        return scores(Q, K)

    slugs = [f"slip-{number}" for number in range(12)]
    exercise = replace(EXERCISE, mistakes=tuple(Mistake(slug, "Advice.", prints_and_warns) for slug in slugs))
    posed, before = pose(exercise, 7), (sys.stdout, warnings.showwarning, warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        asked = ((slug, index) for slug in slugs for index in range(len(posed.cases)))
        found = list(pool.map(lambda each: posed.mistaken(*each), asked))
    assert (sys.stdout, warnings.showwarning, warnings.filters) == before
    assert all(outcome.warned for outcome in found)


def test_what_a_host_function_raises_arrives_as_in_the_sandbox():
    def at(index):
        return [1.0, 2.0][index]

    def answer(at, index):
        try:
            return at(index)
        except IndexError:
            return -1.0
        except TypeError:
            return -2.0

    def draw(rng):
        return [Case("values", str(index), (HostFunction(at), index)) for index in (0, 5, "one")]

    exercise = Exercise("f", "00_test", Leaf("float"), answer, draw, {"values": 1.0}, ())
    posed = pose(exercise, 1)
    assert [call.value for call in ask_here(answer, posed).calls] == [1.0, -1.0, -2.0]


def test_in_a_neighbour_of_a_case_of_counts_sizes_and_words_are_those_of_its_arguments():
    def reference(layers, heads, size=2):
        return layers * heads * size

    def posed(sizes):
        def draw(rng):
            return [Case("values", "35 layers", (35, 4, 8), sizes=sizes)]

        return pose(Exercise("f", "00_test", Leaf("int"), reference, draw, {"values": 1.0}, ()), 1).cases

    first, layers, heads, size = posed({"layers": 35, "heads": 4})
    assert (first.label, layers.label) == ("35 layers", "layers = 36, heads = 4, size = 8")
    assert (layers.sizes, heads.sizes) == ({"layers": 36, "heads": 4}, {"layers": 35, "heads": 5})
    assert size.sizes == first.sizes and size.args == (35, 4, 9)
    assert posed({"L": 35, "h": 4, "d": 8})[2].sizes == {"L": 35, "h": 5, "d": 8}


def test_counts_that_no_float_holds_are_held_against_a_known_mistake():
    posed = pose(find_exercise("attention_flops"), 1)
    calls = [Call(value=outcome.value) for outcome in posed.expected]
    assert any(call.value > 2**53 for call in calls)
    assert all(is_refuted(posed, calls, mistake.slug, times=2) for mistake in posed.exercise.mistakes)
