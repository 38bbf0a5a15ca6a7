"""Repairs: the single change of a wrong answer that passes every case, and the step where wrong values begin."""

from __future__ import annotations

import ast
import math

import nbformat
import numpy as np
import pytest
import torch

from answers.unit_04 import diagnose__right_nearest_of_all
from asked import ROOT, assignment
from autograder.diagnosis.operators.change_descriptions import LONGEST_OWN, text_of
from autograder.diagnosis.repair.first_wrong_step import origin
from autograder.diagnosis.repair.student_program import noted
from autograder.exercises import find_exercise
from autograder.exercises.kit import Case, Exercise, Leaf
from autograder.grading.in_process import ask_here, judge_function, judge_here, program_of
from autograder.grading.one_submission import grade_submission
from autograder.judging.cases_and_expected import problems_of
from autograder.judging.hidden_cases import Challenge, pose
from autograder.reading.course_contents import Course
from autograder.running.sandbox import preflight
from autograder.running.torch_functions import finite_eigenvalues
from autograder.worker.run_rewritten import MOST, NOTED, TIMES, Notes

pytestmark = pytest.mark.nightly

SEEDS = range(3)
UNIT = "02_scaled_scores"


def told(answer, name, seed=1):
    return judge_function(answer, name, seed, watched=False)


# ----------------------------------------------------------------------------------------------- answers with one slip


def softmax_jacobian__of_the_column(p):
    column = p[:, None]
    return column * (np.eye(len(p)) - column)


def split_heads__count_as_width(X, n_heads):
    B, n, width = X.shape
    if width % n_heads:
        raise ValueError(f"{n_heads} heads cannot share {width} columns")
    return X.reshape(B, n, -1, n_heads).transpose(1, 2)


def next_token_pairs__marked(tokens):
    inputs, targets = tokens[:, :-1].copy(), tokens[:, 1:].copy()
    targets[targets == targets.max()] = -100
    return inputs, targets


ONE_SLIP = (
    (softmax_jacobian__of_the_column, "softmax_jacobian", 3, "`column`"),
    (split_heads__count_as_width, "split_heads", 5, "are in the wrong order"),
    (next_token_pairs__marked, "next_token_pairs", 3, "should be treated like the rest"),
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("answer", "name", "line", "words"), ONE_SLIP, ids=[each[1] for each in ONE_SLIP])
def test_the_change_that_makes_it_right_is_told_by_its_line(answer, name, line, words, seed):
    verdict = told(answer, name, seed)
    assert f"(line {line})" in verdict.advice and words in verdict.advice, verdict.message
    assert "every hidden test pass" in verdict.advice
    assert verdict.mistake.startswith("own-") and not verdict.score


def test_what_is_to_be_put_in_its_place_is_not_told():
    advice = told(next_token_pairs__marked, "next_token_pairs").advice
    assert "tokens[:, 1:]" not in advice
    assert "p[" not in told(softmax_jacobian__of_the_column, "softmax_jacobian").advice


def dot_product_moments__zero_is_missing(d, var_q=1.0, var_k=1.0):
    var_q, of_keys = var_q or 1.0, var_k
    of_queries = var_q
    of_keys = of_keys or 1.0
    return 0.0, float(d * of_queries * of_keys)


def layer_norm__eps_or_default(x, gamma, beta, eps=1e-5):
    eps = eps or 1e-5
    centred = x - x.mean(-1, keepdim=True)
    return gamma * centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps) + beta


def feed_forward__turned_by_shape(x, W_1, b_1, W_2, b_2, activation):
    wide = W_1 if W_1.shape == (len(b_1), len(b_2)) else W_1.T
    back = W_2 if W_2.shape == (len(b_2), len(b_1)) else W_2.T
    return torch.nn.functional.linear(activation(torch.nn.functional.linear(x, wide, b_1)), back, b_2)


def attention_scores__last_feature(Q, K):
    S = np.zeros((len(Q), len(K)))
    for i in range(len(Q)):
        for j in range(len(K)):
            for c in range(K.shape[1]):
                S[i, j] = Q[i, c] * K[j, c]
    return S


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (dot_product_moments__zero_is_missing, "treats a 0 as if no number were given"),
        (layer_norm__eps_or_default, "`eps or 1e-05` (line 2) treats a 0 as if no number were given."),
        (feed_forward__turned_by_shape, "compares sizes, which may be equal by chance, and the same goes for `W_2"),
        (attention_scores__last_feature, "overwrites a value that should be kept"),
    ],
)
def test_what_is_meant_is_said_where_a_change_has_a_meaning(answer, words, seed):
    advice = told(answer, answer.__name__.partition("__")[0], seed).advice
    assert words in advice and "every hidden test" in advice, advice


def in_context_learning_score__counted_from_one(losses, early, late):
    mean = losses.mean(dim=0)
    return mean[late - 1] - mean[early - 1]


def softmax__largest_of_all(z, axis=-1):
    powers = np.exp(z - z.max())
    return powers / powers.sum(axis=axis, keepdims=True)


def copying_score__diagonal_as_zero(ov):
    others = ov * (1 - torch.eye(len(ov), dtype=ov.dtype))
    return (ov.diagonal() > others.max(dim=1).values).to(ov.dtype).mean()


def next_token_pairs__fill_marked(tokens):
    return tokens[:, :-1].copy(), np.where(tokens[:, 1:] == 0, -100, tokens[:, 1:])


CHANGES = (
    (
        in_context_learning_score__counted_from_one,
        "in_context_learning_score",
        "`- 1` doesn't belong in `late - 1` (line 3), and the same goes for `early - 1`",
    ),
    (softmax__largest_of_all, "softmax", "takes `max` over all axes instead of only some"),
    (
        copying_score__diagonal_as_zero,
        "copying_score",
        "sets entries to 0 that should be left out, but a 0 still counts",
    ),
    (next_token_pairs__fill_marked, "next_token_pairs", " should use the same one of its two values everywhere"),
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("answer", "name", "words"), CHANGES, ids=[each[1] for each in CHANGES])
def test_a_change_that_makes_it_right_is_told(answer, name, words, seed):
    advice = told(answer, name, seed).advice
    assert words in advice, advice


# ----------------------------------------------------------------------------------------------- beside another finding


def causal_mask__only_earlier(n):
    i = np.arange(n)
    return i[:, None] > i


def causal_mask__in_the_course_s_names(n):
    query, key = np.arange(n)[:, None], np.arange(n)
    return key < query


def test_names_of_the_model_solution_are_left_out_where_the_students_line_is_known():
    verdict = told(causal_mask__only_earlier, "causal_mask")
    known = told(causal_mask__in_the_course_s_names, "causal_mask")
    assert verdict.mistake == known.mistake and "`key < query`" in known.advice
    assert "query" not in verdict.advice, verdict.advice
    assert "The comparison `i[:, None] > i` (line 3) is wrong when both sides are equal." in verdict.advice, (
        verdict.advice
    )


def sample__into_the_prompt(next_logits, prompt, end, max_len, temperature, top_p, generator):
    while len(prompt) < max_len and (len(prompt) < 3 or prompt[-1] != end):
        prompt.append(int(next_logits(prompt).argmax()))
    return prompt


def test_a_list_that_is_written_into_is_seen():
    assert "Your function changes its input `prompt`." in told(sample__into_the_prompt, "sample").advice


def roofline_seconds__by_the_rate(flops, bytes_moved, peak_flops, peak_bandwidth):
    return flops / min(peak_flops, flops / bytes_moved * peak_bandwidth)


def test_an_exception_that_ends_all_that_fails_is_named():
    assert "It raises ZeroDivisionError: " in told(roofline_seconds__by_the_rate, "roofline_seconds").advice


def diagnose__two_names_exchanged(attend):
    name = diagnose__right_nearest_of_all(attend)
    return {"scaled_by_d": "scaled_by_d_model", "scaled_by_d_model": "scaled_by_d"}.get(name, name)


def test_a_wrong_name_is_told_beside_what_it_was_said_of():
    advice = told(diagnose__two_names_exchanged, "diagnose").advice
    assert "(you return “scaled_by_d_model”)" in advice and "(you return “scaled_by_d”)" in advice, advice


def rotate__whole_positions(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.long()[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    one, two = x[..., :half], x[..., half:]
    return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


def test_a_fault_is_told_once_where_its_line_is_known():
    verdict = told(rotate__whole_positions, "rotate")
    assert verdict.mistake == "argument-cut-positions"
    assert verdict.advice.startswith("`long` doesn't belong in `positions.long()` (line 4)."), verdict.advice
    assert "solution" not in verdict.advice


def dot_product_moments__nearly(d, var_q=1.0, var_k=1.0):
    return 0.0, d * var_q * var_k * (1 + 0.05 * math.sin(3 * d + var_q))


def test_random_draws_are_asked_for_only_where_something_is_drawn():
    assert "random" not in told(dot_product_moments__nearly, "dot_product_moments").message


# --------------------------------------------------------------------------------------------- where wrong values begin


def padding_mask__row_before(lengths, m):
    triangle = np.arange(m) <= np.arange(m)[:, None]
    return triangle[lengths - 1]


def padding_mask__blank_from_behind(lengths, m):
    mask = np.ones((len(lengths), m), dtype=bool)
    for row, length in zip(mask, lengths, strict=True):
        row[-(m - length) :] = False
    return mask


def test_an_index_that_counts_from_the_end_is_told():
    advice = told(padding_mask__row_before, "padding_mask").advice
    assert "index `lengths - 1` in `triangle[lengths - 1]` (line 3) is -1 in the case" in advice, advice
    advice = told(padding_mask__blank_from_behind, "padding_mask").advice
    assert "index `-(m - length)` in `row[-(m - length):]` (line 4) is 0 in the case" in advice, advice


def split_heads__tokens_tested(X, n_heads):
    if X.shape[1] % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[1]}")
    return X.unflatten(-1, (n_heads, X.shape[-1] // n_heads)).transpose(1, 2)


def split_heads__rows_mixed_up(X, n_heads):
    if X.shape[-1] % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[-1]}")
    if X.shape[1] > 0:
        B, n, width = X.shape[0], X.shape[1] + 1, X.shape[-1]
        padded = torch.zeros(B, n, width) + X
    return padded


def test_a_condition_is_told_that_raises_and_none_that_does_not_hold():
    advice = told(split_heads__tokens_tested, "split_heads").advice
    assert advice.startswith("Your code raises an error (line 3) because `X.shape[1] % n_heads != 0` is true"), advice
    advice = told(split_heads__rows_mixed_up, "split_heads").advice
    assert "raises an error" not in advice, advice


def previous_token_score__in_a_buffer(weights):
    *lead, n, _ = weights.shape
    scores = torch.zeros(lead)
    return scores + (weights.diagonal(-1, -2, -1).mean(-1).float() if n > 1 else 0)


def test_where_the_wrong_dtype_is_seen_first_is_told():
    advice = told(previous_token_score__in_a_buffer, "previous_token_score").advice
    assert (
        "float32 instead of float64, the dtype of the inputs." in advice
        and "first step of your code whose result has dtype float" in advice
    )


def sums_and_means(X):
    return X.sum(axis=0), X.mean(axis=1)


def sums_and_means__twice(X):
    sums, means = X.sum(axis=0), X.mean(axis=1)
    both = np.tile(means, 2)
    return sums, both


def test_where_one_result_has_the_wrong_shape_the_dtype_of_another_is_not_told():
    results = (Leaf("float array", "the sums"), Leaf("float array", "the means"))
    X = np.arange(12, dtype=np.float32).reshape(3, 4)
    case = Case("values", "float32", (X,), sizes={"n": 3, "d": 4})
    exercise = Exercise("sums_and_means", "00_test", results, sums_and_means, lambda rng: [case], {"values": 1.0}, ())
    posed = pose(exercise, 1)
    calls = ask_here(sums_and_means__twice, posed).calls
    problem, own = problems_of(posed, calls)[0], program_of(sums_and_means__twice)
    text = origin(posed, 0, calls[0], problem, own, []).text
    assert text == "The first step of your code that gives this shape is `np.tile(means, 2)` (line 3)."


def eigenvalue_copying_score__small_is_zero(W_E, W_V, W_O, W_U):
    z = torch.linalg.eigvals(W_O @ W_U @ W_E @ W_V)
    size = z.abs().sum()
    if size < 1e-6:
        return torch.zeros((), dtype=W_E.dtype)
    return z.real.sum() / size


def test_a_changed_program_may_ask_for_eigenvalues_of_nan():
    with finite_eigenvalues(), pytest.raises(ValueError, match="NaN"):
        torch.linalg.eigvals(torch.full((3, 3), torch.nan))
    assert told(eigenvalue_copying_score__small_is_zero, "eigenvalue_copying_score").verdict == "wrong"
    assert torch.linalg.eigvals(torch.eye(2)).shape == (2,)


def bits_per_token__everywhere(logits, targets, mask):
    costs = -torch.log(logits.softmax(-1)) * mask[..., None]
    found = costs.gather(-1, targets.masked_fill(~mask, 0)[..., None])
    return found.sum() / mask.sum().clamp(min=1) / math.log(2)


def test_the_step_is_told_that_nan_comes_from():
    advice = told(bits_per_token__everywhere, "bits_per_token").advice
    assert "`-torch.log(logits.softmax(-1)) * mask[..., None]` (line 2) is the first step" in advice, advice


def attention__bare(Q, K, V):
    powers = np.exp(Q @ K.T / math.sqrt(Q.shape[-1]))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def test_an_exponential_that_overflows_is_told():
    advice = told(attention__bare, "attention").advice
    assert "`np.exp(Q @ K.T / math.sqrt(Q.shape[-1]))` (line 2) becomes infinite" in advice, advice


# ------------------------------------------------------------------------------------------------------------ its parts


def batch_norm__mean_of_variances(x, gamma, beta, eps=1e-5):
    mean = x.mean(dim=(0, 1))
    variance = x.var(dim=1, correction=0).mean(dim=0)
    return gamma * (x - mean) / (variance + eps).sqrt() + beta / 2


def test_a_noted_program_answers_the_same_and_hands_its_steps_over():
    own = program_of(batch_norm__mean_of_variances)
    notes = Notes()
    space = {"torch": torch, NOTED: notes}
    exec(own.text_of(noted(own.tree)), space)
    x, gamma, beta = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)), torch.ones(4), torch.zeros(4)
    assert torch.equal(space[own.tree.name](x, gamma, beta, 1e-3), batch_norm__mean_of_variances(x, gamma, beta, 1e-3))
    texts = {node.number: ast.unparse(node) for node in ast.walk(own.tree)}
    kept = {texts[number]: value for number, value in notes.kept}
    assert torch.equal(kept["x.mean(dim=(0, 1))"], x.mean(dim=(0, 1)))
    assert kept["eps"] == 1e-3


def test_notes_are_copies_and_few():
    notes, array = Notes(), np.zeros(2)
    for _ in range(3 * TIMES):
        assert notes(1, array) is array
        array += 1
    assert [value[0] for _, value in notes.kept] == list(range(TIMES))
    for number in range(2 * MOST):
        notes(number, 1.5)
    assert len(notes.kept) == MOST


def test_a_long_piece_of_a_program_is_shown_by_what_counts():
    chain = (
        ast.parse("X.reshape(B, n, n_heads, d_head).transpose(1, 2).masked_fill(~mask, 0).softmax(dim=2)").body[0].value
    )
    assert text_of(chain).endswith("softmax(dim=2)`") and len(text_of(chain)) == LONGEST_OWN + 2
    total = ast.parse(" + ".join(f"summand_{i}" for i in range(20))).body[0].value
    assert text_of(total).startswith("`summand_0 + ") and text_of(total).endswith("…`")


def test_a_program_without_a_text_costs_nothing():
    assert program_of(find_exercise("softmax").reference) is not None
    space: dict = {}
    exec("def softmax(z, axis=-1):\n    return z", space)
    assert program_of(space["softmax"]) is None
    assert told(space["softmax"], "softmax").score == 0


# ------------------------------------------------------------------------------------------------------- in the sandbox

IN_A_CELL = '''print("above")
def softmax_jacobian(p):
    """What stands above is counted, too."""
    column = p[:, None]
    return column * (np.eye(len(p)) - column)
'''
ENDLESS = """
def softmax_jacobian(p):
    rows = 0
    while rows != len(p) * len(p):
        rows += len(p)
    return np.outer(p, p) * rows
"""
MEDDLES = """
import os
def softmax_jacobian(p):
    if "_noted" in globals():
        globals()["_noted"] = lambda number, value: [value] * 10**7
        os._exit(3)
    return np.outer(p, p)
"""


@pytest.mark.skipif(preflight() is not None, reason=str(preflight()))
@pytest.mark.usefixtures("one_sandbox")
@pytest.mark.parametrize("cell", [IN_A_CELL, ENDLESS, MEDDLES], ids=["a slip", "without end when changed", "meddles"])
def test_a_submission_is_told_by_the_line_of_its_cell_and_loses_nothing(cell, tmp_path):
    from warm import WARM

    path = tmp_path / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir()
    notebook = nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)
    for each in notebook.cells:
        marks = each.metadata.get("nbgrader", {})
        if marks.get("solution") and marks.grade_id == "softmax_jacobian":
            each.source = cell
    nbformat.write(notebook, path)
    with WARM.lend() as sandbox:
        verdicts = grade_submission(Course(ROOT).open(path, UNIT), assignment(UNIT), Challenge(1), sandbox)
    found = {verdict.function: verdict for verdict in verdicts}
    jacobian = found.pop("softmax_jacobian")
    assert (jacobian.verdict, jacobian.score) == ("wrong", 0)
    assert all(verdict.verdict == "right" for verdict in found.values())
    if cell == IN_A_CELL:
        assert "`column`" in jacobian.advice and "(line 5)" in jacobian.advice, jacobian.advice


def test_in_a_notebook_of_ones_own_no_other_version_is_run(monkeypatch):
    def softmax(z, axis=-1):
        return z

    def refuse(function):
        raise RuntimeError("its alarms could end the notebook's kernel")

    monkeypatch.setattr("autograder.grading.in_process.program_of", refuse)
    with pytest.raises(AssertionError, match="softmax: "):
        judge_here(softmax)
    with pytest.raises(RuntimeError, match="kernel"):
        judge_function(softmax, "softmax", 1)


def test_a_list_of_failing_cases_that_is_not_complete_gives_their_number():
    message = judge_function(softmax__largest_of_all, "softmax", 1).message
    assert "cases, among them “" in message and "In the first of these cases" in message, message


def test_a_changed_input_is_named_and_its_exception_explained():
    def written_into_queries(Q, K, V):
        for row in np.ndindex(Q.shape[:3]):
            scores = K[row[:2]] @ Q[row] / Q.shape[-1] ** 0.5
            Q[row] = torch.softmax(scores, dim=-1) @ V[row[:2]]
        return Q

    verdict = judge_function(written_into_queries, "loop_attention", 1)
    assert verdict.message.startswith("Your function changes its input `Q`."), verdict.message
    assert verdict.message.count("RuntimeError") == 1, verdict.message
