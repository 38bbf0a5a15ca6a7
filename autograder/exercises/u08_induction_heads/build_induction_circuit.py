"""Defines the exercise `build_induction_circuit`, which sets by hand the weights of a two-layer induction circuit."""

import math

import torch

from ...worker.encode_values import leaves, map_leaves
from ..kit import exercise
from .circuit_faults import examine_circuit
from .hand_made_circuit import build_induction_circuit


def cases(case):
    vocab, period, more = (int(case.rng.integers(*between)) for between in ((12, 20), (5, 9), (1, 6)))
    other, large = int(case.rng.integers(21, 30)), int(case.rng.integers(180, 201))
    for criterion, vocab_size, n_ctx, block, repeats, label in (
        ("two repeats", vocab, 2 * period + more, period, 2, "2 repeats"),
        ("two repeats", other, 2 * period + 3, period + 1, 2, "2 repeats"),
        ("two repeats", 9, 2 * 9, 9, 2, "every token of the vocabulary"),
        ("two repeats", vocab, 6 * period, period - 1, 2, "room to spare"),
        ("more repeats", vocab, 3 * period + 1, period, 3, "3 repeats"),
        ("more repeats", other, 6 * period, period, 6, "6 repeats"),
        ("more repeats", vocab, 27, 2, 13, "blocks of two"),
        ("sizes", 7, 6, 3, 2, "small"),
        ("sizes", 80, 60, 20, 3, "3 repeats"),
        ("sizes", large, 128, 31, 4, "large"),
        ("sizes", large, 128, 64, 2, "blocks as long as can be"),
        ("sizes", 8, 128, 6, 21, "few tokens, a long text"),
        ("sizes", 2, 4, 2, 2, "the smallest vocabulary"),
        ("sizes", 2, 3, 1, 3, "blocks of one token"),
        ("sizes", 3, 128, 1, 128, "one token all along"),
    ):
        words = f"{label}: vocab {vocab_size}, n_ctx {n_ctx}, a block of {block}"
        run_on = {"period": block, "repeats": repeats, "seed": int(case.rng.integers(2**31))}
        yield case(criterion, words, vocab_size=vocab_size, n_ctx=n_ctx, also=run_on, once=vocab_size >= 80)


def changed(change):
    """Return the reference circuit after `change(weights)`."""
    return lambda vocab_size, n_ctx: change(build_induction_circuit(vocab_size, n_ctx))


def half_of_the_positions(weights):
    half = len(weights["W_pos"]) // 2
    weights["W_pos"][half:] = weights["W_pos"][max(half - 1, 0)].clone()
    return weights


def half_of_the_tokens(weights):
    half = len(weights["W_E"]) // 2
    weights["blocks"][1]["W_Q"][:half] = 0
    return weights


def drawn(weights):
    generator = torch.Generator().manual_seed(0)
    for matrix in leaves(weights):
        matrix.normal_(std=0.02, generator=generator)
    return weights


MISTAKES = (
    ("keys-missing", changed(lambda weights: {**weights, "blocks": weights["blocks"][:1]}),
     "Your dict does not hold all that `run_attention_only` reads: W_E, W_pos, W_U and two blocks."),
    ("wrong-shapes", changed(lambda weights: {**weights, "W_U": weights["W_U"].T.contiguous()}),
     "Your weights fit neither together nor the given sizes. Go through the shapes one by one."),
    ("not-float32", changed(lambda weights: map_leaves(weights, torch.Tensor.double)),
     "Your weights should be float32."),
    ("not-tensors", changed(lambda weights: map_leaves(weights, torch.Tensor.numpy)),
     "Your weights should be torch tensors."),
    ("not-finite", {"first_logit": math.inf},
     "Your infinite weights give NaN. A large finite logit is enough."),
    ("first-layer-looks-at-itself", {"look_back": 0},
     "Your first layer attends to the current token. The query of position i should ask for the key of position i − "
     "1."),
    ("first-layer-two-back", {"look_back": 2},
     "Your first layer attends two positions back. The query of position i should ask for the key of position i − 1."),
    ("first-layer-too-soft", {"first_logit": 1.0},
     "Your first layer spreads its attention over several positions. How large must a logit be to outweigh n − 1 "
     "others? Remember that scores are divided by √d_head, whatever the sizes."),
    ("first-layer-at-some-positions", changed(half_of_the_positions),
     "Your first layer looks at the token before from some positions and not from others. Does W_pos distinguish all "
     "n_ctx positions, and do queries and keys of the first layer read all of it?"),
    ("no-circuit", changed(drawn),
     "Your first layer looks neither at the token before nor at any other fixed place, as with weights that are "
     "drawn or left at 0. Set its weights first, look at its pattern, and go on to the second layer when it is "
     "right."),
    ("attends-to-the-match", {"match_on": "token", "slope": -10.0},
     "Your second layer attends to the earlier occurrence of the current token, not to the token after it. Its "
     "keys should hold what the first layer noted, which is the token before."),
    ("second-layer-looks-at-itself", {"match_on": "token"},
     "Your second layer attends to its own position. Either its keys hold that position's own token, or what speaks "
     "for late positions outweighs a match."),
    ("second-layer-elsewhere", {"ask": "noted", "match_on": "token"},
     "Your second layer attends to other positions than the one after the earlier match. Which part of the stream do "
     "its queries read, and which its keys?"),
    ("second-layer-spreads", {"match_logit": 0.0, "slope": 0.0},
     "Your second layer attends to no position in particular. Do its queries and keys meet in the same features?"),
    ("second-layer-at-some-positions", changed(half_of_the_tokens),
     "Your second layer attends to the right position for some tokens and positions, and elsewhere for others. Is "
     "each field of the stream as wide as it has to be, and separate from the next one? Does a match outweigh all "
     "that speaks for late positions, however far back it is?"),
    ("too-soft", {"match_logit": 4.0, "slope": 0.0, "mend_start": True},
     "Your second layer attends to the right position, but not sharply. How large must a logit be to outweigh all "
     "others?"),
    ("first-token-of-a-block", {"slope": 0.0},
     "In a second block your second layer is right except at its first token. Position 0 can attend only to itself. "
     "What does it note, and what makes a later match win against it?"),
    ("matches-averaged", {"slope": 0.0, "mend_start": True},
     "From the third block on your second layer shares its attention among all earlier matches. The latest should "
     "win."),
    ("earliest-match", {"slope": -10.0, "mend_start": True},
     "From the third block on your second layer attends to an earlier match than the latest."),
    ("predicts-the-current-token", {"unembed": "token"},
     "Your attention is right, but you predict the current token. What do W_V of layer 2 and W_U read?"),
    ("predicts-the-previous-token", {"unembed": "noted"},
     "Your attention is right, but you predict the token before. What do W_V of layer 2 and W_U read?"),
    ("no-prediction", {"loudness": 0.0},
     "Your attention is right, but the logits are all equal. Does what the second layer writes reach W_U?"),
    ("wrong-prediction", {"shift": 1},
     "Your attention is right, but you predict other tokens. Follow one token through the second layer's W_V and "
     "W_O, and through W_U."),
)  # fmt: skip

EXERCISE = exercise(
    build_induction_circuit,
    cases,
    MISTAKES,
    slipped=build_induction_circuit,
    library="torch",
    credit={"two repeats": 0.5, "more repeats": 0.25, "sizes": 0.25},
    examine=examine_circuit,
)
