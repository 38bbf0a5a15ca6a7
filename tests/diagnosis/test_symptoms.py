"""What is said of wrong answers that no small change explains: each sentence of one it is true of, and not of others."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from autograder.diagnosis.diagnose import judge
from autograder.diagnosis.symptoms.shapes import two_axes
from autograder.exercises.kit import Case, Exercise, Leaf, Mistake
from autograder.grading.in_process import ask_here, judge_function
from autograder.judging.hidden_cases import pose
from autograder.records import Failure

pytestmark = pytest.mark.nightly

SEEDS = range(3)


def told(name, answer, seed=1):
    """By its answers alone: what its text tells is tried elsewhere."""
    return judge_function(answer, name, seed, watched=False, reread=False)


def softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def heads_of(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """What each head adds, in the right shape."""
    split = [(X @ W).unflatten(-1, (n_heads, -1)).transpose(1, 2) for W in (W_Q, W_K, W_V)]
    scores = split[0] @ split[1].mT / math.sqrt(split[0].shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ split[2] @ W_O.unflatten(0, (n_heads, -1))


# ------------------------------------------------------------------------------------------------------------- errors


def three_axes(x, W_1, b_1, W_2, b_2, activation):
    return torch.einsum("bnf,fd->bnd", activation(torch.einsum("bnd,df->bnf", x, W_1) + b_1), W_2) + b_2


def three_names(X):
    B, h, n = X.shape
    return X.transpose(1, 2).reshape(B, n, h)


def four_of_five(X):
    B, h, n, _ = X.shape
    return X.transpose(1, 2).reshape(B, n, h, h)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "answer", "words", "unsaid"),
    [
        ("embed", lambda tokens, E: E.T[tokens + E.shape[1]], "past the end of an axis of length vocab", "Two arrays"),
        ("feed_forward", three_axes, "expects an array with 3 axes, but it has", "Two arrays"),
        ("merge_heads", three_names, "values into 3 names", "Two arrays"),
        ("merge_heads", four_of_five, "B·h·n·d_head entries can't be reshaped to (B, n, h, h)", "Two arrays"),
        (
            "repeat_kv",
            lambda K, n_rep: K.expand(-1, K.shape[1] * n_rep, -1, -1),
            "an axis of length g·n_rep with an axis of length g",
            "index",
        ),
    ],
    ids=["index", "axes", "names", "reshape", "expand"],
)
def test_an_exception_is_told_in_the_sizes_that_meet_there(name, answer, words, unsaid, seed):
    verdict = told(name, answer, seed)
    assert words.lower() in verdict.advice.lower() and unsaid not in verdict.advice, verdict.message


def test_a_length_that_never_changes_is_that_number_and_no_sum_of_sizes():
    met = "The size of tensor a ({d_head}) must match the size of tensor b (6) at non-singleton dimension 3"
    sizes = ({"B": 5, "d_head": 8}, {"B": 5, "d_head": 4}, {"B": 5, "d_head": 10}, {"B": 2, "d_head": 12})
    cases = [Case("values", "", (), sizes=each) for each in sizes]
    raised = [(case, Failure("RuntimeError", met.format_map(case.sizes), 3)) for case in cases]
    assert two_axes(raised) == ("d_head", "6")


def test_of_an_exception_that_speaks_of_no_arrays_none_is_told():
    def answer(X):
        raise RuntimeError("an odd size of the universe")

    assert told("merge_heads", answer).mistake is None


# ------------------------------------------------------------------------------------------------------------- shapes


def one_below_the_other(X):
    return torch.cat(list(X.unbind(1)), dim=1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "answer", "words", "unsaid"),
    [
        ("head_contributions", lambda *a: heads_of(*a).sum(1), "You sum over the heads (h).", "average"),
        ("head_contributions", lambda *a: heads_of(*a).mean(1), "You average over the heads (h).", "You sum"),
        (
            "head_contributions",
            lambda *a: heads_of(*a)[:, 0],
            "You return only the first entry of the heads (h).",
            "summed",
        ),
        ("head_contributions", lambda *a: heads_of(*a).sum(1) ** 2, "You lose the heads (h).", "You sum"),
        ("merge_heads", one_below_the_other, "with the axis n, but should join", "summed"),
        ("merge_heads", lambda X: X.transpose(1, 2).flatten(2)[None], "an axis too many or too few", "summed"),
        ("attention", lambda Q, K, V: (softmax(Q @ K.T), softmax(Q @ K.T) @ K), "The shape of the output", "summed"),
        (
            "attention",
            lambda Q, K, V: (Q @ K.T, softmax(Q @ K.T / math.sqrt(Q.shape[1]))),
            "That is the shape of the weights.",
            "`Q`",
        ),
    ],
    ids=["sum", "mean", "first", "lost", "merged", "length 1", "both", "another result"],
)
def test_a_wrong_shape_is_told_by_its_axes(name, answer, words, unsaid, seed):
    verdict = told(name, answer, seed)
    assert words in verdict.advice and unsaid not in verdict.advice, verdict.message


@pytest.mark.parametrize("seed", SEEDS)
def test_entries_that_are_read_in_another_order_are_told(seed):
    def answer(K, n_rep):
        B, g, n, d = K.shape
        return K[:, :, :, None].expand(B, g, n, n_rep, d).reshape(B, g * n_rep, n, d)

    verdict = told("repeat_kv", answer, seed)
    assert "in the order (B, g, n, n_rep, d) instead of (B, g, n_rep, n, d)" in verdict.advice
    other = told("repeat_kv", lambda K, n_rep: K.repeat_interleave(n_rep, dim=1).flip(2), seed)
    assert "in the order (" not in other.advice, other.message


# -------------------------------------------------------------------------------------------- where right, where wrong


def summed(rng):
    cases = []
    for B, n in ((2, 3), (3, 4), (2, 5), (4, 4), (3, 3)):
        x = rng.standard_normal((B, n, n))
        cases.append(Case("values", f"B = {B}, n = {n}", (x,), sizes={"B": B, "n": n}))
    return cases


EXERCISE = Exercise(
    "running", "00_test", Leaf("float array"), lambda x: np.cumsum(x, axis=1), summed, {"values": 1.0}, ()
)


def judged(answer, exercise=EXERCISE, seed=3):
    posed = pose(exercise, seed)
    return judge(posed, ask_here(answer, posed))


def test_only_ordinary_cases_are_called_ordinary():
    """The core of `sample` is temperature 0: what is right there is not called ordinary."""

    def answer(next_logits, prompt, end, max_len, temperature, top_p, generator):
        tokens = list(prompt)
        while len(tokens) < max_len:
            tokens.append(int(next_logits(tokens).argmax()))
            if tokens[-1] == end:
                break
        return tokens

    verdict = told("sample", answer)
    assert "passes the ordinary cases" not in verdict.message, verdict.message


def test_each_of_several_results_is_told_by_itself():
    def answer(X, W_Q, W_K, W_V):
        return X @ W_Q, 3 * (X @ W_K), np.abs(X @ W_V)

    verdict = told("project_qkv", answer)
    assert all(words in verdict.advice for words in ("`Q` is right.", "`K`", "`V`")), verdict.message


def test_a_result_keeps_the_small_letter_of_its_name():
    def answer(x):
        return np.cumsum(x, axis=1).swapaxes(1, 2), x

    both = replace(
        EXERCISE,
        returns=(Leaf("float array", "q"), Leaf("float array", "k")),
        reference=lambda x: (np.cumsum(x, axis=1), x),
    )
    assert judged(answer, both).advice.startswith("Rows and columns are swapped in `q`."), judged(answer, both).message


def attention_backward__by_steps(Q, K, V, d_output, step=3e-4):
    """Each slope by a quotient of differences, of which float32 keeps few digits."""

    def loss(*parts):
        scores = parts[0] @ parts[1].T / math.sqrt(Q.shape[1])
        return (softmax(scores) @ parts[2] * d_output).sum()

    def slopes(place):
        X = (Q, K, V)[place]
        found = np.zeros(X.shape, X.dtype)
        for at in np.ndindex(*X.shape):
            moved = [np.array(part) for part in (Q, K, V)]
            moved[place][at] += step
            found[at] = (loss(*moved) - loss(Q, K, V)) / step
        return found

    return slopes(0), slopes(1), slopes(2)


@pytest.mark.parametrize("seed", SEEDS)
def test_digits_that_got_lost_are_no_shift_of_the_rows(seed):
    advice = told("attention_backward", attention_backward__by_steps, seed).advice
    assert "the same number is added" not in advice, advice


# --------------------------------------------------------------------------------------------------------- two causes


def test_two_known_mistakes_that_answer_alike_are_both_named():
    twins = (
        Mistake("first", "The first cause.", lambda x: np.cumsum(x, axis=0)),
        Mistake("second", "The second cause.", lambda x: np.cumsum(x, axis=0) + 0.0),
        Mistake("other", "Another one.", lambda x: np.cumsum(x, axis=2)),
    )
    verdict = judged(lambda x: np.cumsum(x, axis=0), replace(EXERCISE, mistakes=twins))
    assert "The first cause." in verdict.advice and "The second cause." in verdict.advice, verdict.message
    other = judged(lambda x: np.cumsum(x, axis=2), replace(EXERCISE, mistakes=twins))
    assert other.advice.startswith("Another one.") and "cause" not in other.advice


# ------------------------------------------------------------------------------------------------- lists, masks, counts


def all_but_the_first(patterns, tokens):
    from autograder.exercises.u08_induction_heads.find_heads import find_heads

    return tuple(each[1:] if len(each) > 1 else each for each in find_heads(patterns, tokens))


def end_at_the_end(next_logits, start, end, max_len):
    tokens = [start]
    while len(tokens) < max_len and (len(tokens) < 2 or tokens[-1] != end):
        tokens.append(int(next_logits(tokens).argmax()))
    return [*tokens[:-1], end] if len(tokens) > 1 else tokens


def never_ended(next_logits, start, end, max_len):
    tokens = [start]
    while len(tokens) <= max_len and (len(tokens) < 2 or tokens[-1] != end):
        tokens.append(int(next_logits(tokens).argmax()))
    return tokens[:-1] if tokens[-1] == end else tokens


def by_a_float(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    return int(math.prod(map(float, (2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value))))


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("find_heads", all_but_the_first, "You put at most one"),
        ("greedy_decode", end_at_the_end, "Only the last entry of the tokens is wrong"),
        ("greedy_decode", never_ended, "you stop too early in some cases and too late in others"),
        ("kv_cache_bytes", by_a_float, "your code turns it into a float"),
    ],
)
def test_lists_masks_and_counts_are_told_by_how_they_differ(name, answer, words):
    verdict = told(name, answer)
    assert words in verdict.advice, verdict.message


def greedy_with_a_draw(next_logits, prompt, end, max_len, temperature, top_p, generator):
    from autograder.exercises.u07_transformer_block.sample import sample

    if temperature == 0:
        torch.rand(1, generator=generator)
    return sample(next_logits, prompt, end, max_len, temperature, top_p, generator)


def test_a_draw_where_nothing_is_left_to_chance_is_told():
    verdict = told("sample", greedy_with_a_draw)
    assert verdict.mistake == "draws-needlessly" and "your function draws from `generator`" in verdict.advice, (
        verdict.message
    )


def window_kept(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    from autograder.exercises.u05_mqa_gqa.decode_step import decode_step

    kept = tuple(each[:, :, -3:] for each in cache)
    return decode_step(x, kept, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads)


def test_a_result_of_another_shape_is_not_called_right():
    assert "the cached keys and the cached values are right" not in told("decode_step", window_kept).advice


# -------------------------------------------------------------------------------------------- what other cases refute


def adamw_step__corrects_early_alone(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    early = step <= 1000
    mean, square = (m / (1 - beta1**step), v / (1 - beta2**step)) if early else (m, v)
    return w - lr * (mean / (square.sqrt() + eps) + weight_decay * w), m, v


def padding_mask__empty_where_full(lengths, m):
    return np.array([[j < length % m for j in range(m)] for length in np.asarray(lengths).tolist()])


def test_as_if_an_input_were_another_is_not_said_where_a_right_case_refutes_it():
    """With step squared there is no correction left; but then smaller steps would be wrong as well."""
    for answer in (adamw_step__corrects_early_alone, padding_mask__empty_where_full):
        for seed in SEEDS:
            advice = told(answer.__name__.partition("__")[0], answer, seed).advice
            assert "takes `step`" not in advice and "sign of lengths" not in advice, advice


def cross_attention__hidden_made_zero(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    Y = Y if source_mask is None else Y * source_mask[..., None]
    Q, K, V = ((A @ W).unflatten(-1, (n_heads, -1)).transpose(1, 2) for A, W in ((X, W_Q), (Y, W_K), (Y, W_V)))
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), -1)
    if source_mask is not None:
        weights = weights * source_mask.any(-1)[:, None, None, None]
    return (weights @ V).transpose(1, 2).flatten(2) @ W_O, weights


def test_weight_on_what_is_hidden_is_no_matter_of_scale():
    for seed in SEEDS:
        advice = told("cross_attention", cross_attention__hidden_made_zero, seed).advice
        assert "too flat" not in advice and "too sharp" not in advice, advice


# ------------------------------------------------------------------------------------------------------------ chance


def dot_product_moments__tossed(d, var_q=1.0, var_k=1.0):
    signs = np.random.choice([-1.0, 1.0], (4, d))
    return 0.0, float((signs * signs * var_q * var_k).sum(-1).mean())


def embed__seeded(tokens, E):
    np.random.seed(0)
    return E.T[tokens]


def score_statistics__values_too(d, n_samples, rng, scaled):
    q, k, _ = (rng.standard_normal((n_samples, d)) for _ in range(3))
    scores = (q * k).sum(-1) / (math.sqrt(d) if scaled else 1)
    return float(scores.mean()), float(scores.var())


def score_statistics__by_hand(d, n_samples, rng, scaled):
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = [float(one @ other) / (d**0.5 if scaled else 1) for one, other in zip(q, k, strict=True)]
    mean = sum(scores) / n_samples
    return mean, sum((score - mean) ** 2 for score in scores) / n_samples


def test_nothing_is_drawn_where_nothing_is_left_to_chance_and_no_more_than_is_needed():
    found = told("dot_product_moments", dot_product_moments__tossed)
    assert (found.verdict, found.mistake) == ("wrong", "shared-generator-moved"), found.message
    assert told("embed", embed__seeded).mistake == "shared-generator-moved"
    found = told("score_statistics", score_statistics__values_too)
    assert (found.verdict, found.mistake) == ("wrong", "draws-more"), found.message
    assert told("score_statistics", score_statistics__by_hand).verdict == "right"


# ------------------------------------------------------------------------------- numbers that may come as tensors


def score_of(made):
    def in_context_learning_score(losses, early, late):
        return made(losses[:, late] - losses[:, early])

    return in_context_learning_score


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (lambda falls: falls.mean(), "right"),
        (lambda falls: falls.mean().item(), "right"),
        (lambda falls: falls.detach().mean(), "wrong"),
        (lambda falls: falls.double().mean(), "wrong"),
    ],
    ids=["a tensor", "a number", "a tensor that is cut off", "a tensor of another dtype"],
)
def test_a_number_may_come_back_and_a_tensor_keeps_gradients_and_dtype(made, verdict):
    assert told("in_context_learning_score", score_of(made)).verdict == verdict
