"""Rules that no result shows: no Python loop, one pass, the generator that is handed over, no guess at padding."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch

from autograder.grading.in_process import judge_function
from autograder.worker.call_function import LineCounter


def told(answer, name, seed=1):
    return judge_function(answer, name, seed, watched=False)


# ---------------------------------------------------------------------------------------------------------- no loop


def by_row(document_ids):
    B, n = document_ids.shape
    mask, positions = np.zeros((B, n, n), bool), np.zeros((B, n), int)
    for i in range(n):
        mask[:, i, : i + 1] = document_ids[:, : i + 1] == document_ids[:, i : i + 1]
        positions[:, i] = mask[:, i].sum(axis=-1) - 1
    return mask, positions


def by_comprehension(document_ids):
    rows = [(row == row[:, None]) & np.tri(len(row), dtype=bool) for row in document_ids]
    counted = [[int(mask[i].sum()) - 1 for i in range(len(mask))] for mask in rows]
    return np.stack(rows), np.array(counted)


def by_document(document_ids):
    mask, positions = np.zeros((*document_ids.shape, document_ids.shape[1]), bool), np.zeros(document_ids.shape, int)
    for b, row in enumerate(document_ids):
        for document in set(row.tolist()):
            own = np.flatnonzero(row == document)
            mask[b][np.ix_(own, own)] = np.tri(len(own), dtype=bool)
            positions[b, own] = np.arange(len(own))
    return mask, positions


def test_a_loop_over_tokens_is_seen_and_one_over_documents_is_allowed():
    for answer in (by_row, by_comprehension):
        verdict = told(answer, "packed_causal_mask")
        assert (verdict.verdict, verdict.mistake) == ("wrong", "materialises"), verdict.message
        assert "loop" in verdict.advice and verdict.score > 0
    assert told(by_document, "packed_causal_mask").verdict == "right"


def head_by_head(Q, K, V, causal=False):
    out = torch.zeros_like(Q)
    for b in range(len(Q)):
        for head in range(Q.shape[1]):
            scores = Q[b, head] @ K[b, head].T / math.sqrt(Q.shape[-1])
            if causal:
                scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
            out[b, head] = scores.softmax(-1) @ V[b, head]
    return out


def test_a_python_loop_is_told():
    verdict = told(head_by_head, "batched_attention")
    assert verdict.verdict == "wrong" and "allows no such loop" in verdict.advice, verdict.message


def test_lines_are_counted_where_they_stand_and_the_trace_is_given_back():
    def function(n):
        total = 0
        for i in range(n):
            total += sum(abs(i) for _ in range(3))
        return total

    before = sys.gettrace()
    with LineCounter(function) as busy:
        function(7)
        sorted(range(100), key=len_of)
    assert 7 * 3 <= busy.most <= 7 * 3 + 2 * 7 + 100 and sys.gettrace() is before
    with LineCounter(len) as busy:
        function(7)
    assert busy.most == 0


def len_of(number):
    return len(str(number))


# ---------------------------------------------------------------------------------------------------------- one pass


def tiled(passes):
    def blocks_of(Q, K, size):
        for start in range(0, K.shape[2], size):
            yield slice(start, start + size), Q @ K[:, :, start : start + size].mT / math.sqrt(Q.shape[-1])

    def two(Q, K, V, block_size):
        largest, total, out = torch.full_like(Q[..., :1], -math.inf), 0, 0
        for _, scores in blocks_of(Q, K, block_size):
            largest = torch.maximum(largest, scores.amax(-1, keepdim=True))
        for block, scores in blocks_of(Q, K, block_size):
            weights = torch.exp(scores - largest)
            total, out = total + weights.sum(-1, keepdim=True), out + weights @ V[:, :, block]
        return out / total

    def one(Q, K, V, block_size):
        largest, total, out = torch.full_like(Q[..., :1], -math.inf), 0, 0
        for block, scores in blocks_of(Q, K, block_size):
            new = torch.maximum(largest, scores.amax(-1, keepdim=True))
            factor, weights = torch.exp(largest - new), torch.exp(scores - new)
            total, out = factor * total + weights.sum(-1, keepdim=True), factor * out + weights @ V[:, :, block]
            largest = new
        return out / total

    return one if passes == 1 else two


def test_blocks_that_are_met_twice_are_seen():
    assert told(tiled(1), "tiled_attention").verdict == "right"
    verdict = told(tiled(2), "tiled_attention")
    assert verdict.verdict == "wrong" and "one pass" in verdict.message, verdict.message


# ----------------------------------------------------------------------------------------------- calls that are due


def one_run_behind(run, synchronize, clock, warmup, repeats):
    def once():
        synchronize()
        start = clock()
        run()
        synchronize()
        return clock() - start

    times = [once() for _ in range(warmup + repeats)][warmup:]
    run()
    return float(np.median(times))


def test_calls_are_counted_where_the_time_is_right():
    verdict = told(one_run_behind, "median_time")
    assert verdict.verdict == "wrong" and "calls `run`" in verdict.message, verdict.message


# --------------------------------------------------------------------------------------- generators, and no padding


def from_a_copy(batch, period, repeats, vocab_size, generator):
    own = torch.Generator()
    own.set_state(generator.get_state())
    return torch.randint(vocab_size, (batch, period), generator=own).repeat(1, repeats)


def test_a_generator_is_to_be_drawn_from_itself():
    verdict = told(from_a_copy, "repeated_sequences")
    assert (verdict.mistake, verdict.verdict) == ("generator-not-moved", "wrong"), verdict.message


def zeros_are_padding(x, gamma, beta, eps=1e-5):
    words = x[(x != 0).any(-1)]
    mean, variance = words.mean(0), words.var(0, unbiased=False)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def rows_of_the_mask_are_sequences(Q, K, V, mask):
    if Q.ndim == 3 and mask.ndim == 2 and len(mask) == len(Q):
        mask = mask[:, None]
    scores = np.where(mask, Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1]), -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total > 0, total, 1)
    return weights @ V, weights


@pytest.mark.parametrize(
    ("name", "answer"),
    [("batch_norm", zeros_are_padding), ("masked_attention", rows_of_the_mask_are_sequences)],
)
def test_what_is_padding_is_not_to_be_guessed(name, answer):
    verdict = told(answer, name)
    assert verdict.verdict == "wrong" and verdict.score > 0, verdict.message


# ----------------------------------------------------------------------------------- what a case shows of its inputs


def earlier_places_alone(patterns, tokens):
    n, lists = len(tokens), []
    back = [[i - 1] if i else [] for i in range(n)]
    after = [[j for j in range(1, i) if tokens[j - 1] == tokens[i]] for i in range(n)]
    for places in (back, after):
        rows = [i for i in range(n) if places[i]]
        even = sum(len(places[i]) / (i + 1) for i in rows) / max(len(rows), 1)
        lists.append([])
        for layer, heads in enumerate(patterns):
            for head, pattern in enumerate(heads):
                share = sum(float(pattern[i, places[i]].sum()) for i in rows) / max(len(rows), 1)
                if rows and share > (1 + even) / 2:
                    lists[-1].append((layer, head))
    return tuple(lists)


def test_of_a_head_that_is_missing_its_weight_is_told():
    verdict = told(earlier_places_alone, "find_heads")
    assert "is missing from `induction`" in verdict.advice and "on the position itself" in verdict.advice, (
        verdict.message
    )


def keeps_too_many(next_logits, prompt, end, max_len, temperature, top_p, generator):
    tokens = list(prompt)
    while len(tokens) < max_len and end not in tokens[len(prompt) :]:
        logits = next_logits(list(tokens))
        if temperature == 0:
            tokens.append(int(logits.argmax()))
            continue
        p = torch.softmax((logits - logits.max()) / temperature, 0)
        kept = p >= p.max() * (1 - top_p) * 0.3
        tokens.append(int(torch.multinomial(p * kept, 1, generator=generator)))
    return tokens


@pytest.mark.nightly
def test_of_a_token_that_may_not_come_it_is_told_how_many_are_likelier():
    assert "likelier than yours" in told(keeps_too_many, "sample").advice


def end_not_written(next_logits, prompt, end, max_len, temperature, top_p, generator):
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            new = int(logits.argmax())
        else:
            p = torch.softmax((logits - logits.max()) / temperature, 0)
            ordered, order = p.sort(descending=True)
            kept = ordered.cumsum(0) - ordered < top_p
            kept[0] = True
            p[order[~kept]] = 0
            new = int(torch.multinomial(p, 1, generator=generator))
        if new == end:
            break
        tokens.append(new)
    return tokens


@pytest.mark.nightly
def test_of_a_text_that_lacks_its_end_that_is_told():
    assert "which is `end`" in told(end_not_written, "sample").advice
