"""Defines the exercise `repeated_sequences`, which draws rows of random tokens that repeat block after block."""

import torch

from ..kit import Leaf, Rng, exercise, seed, size


def repeated_sequences(
    batch: size("B"), period: int, repeats: int, vocab_size: size("vocab"), generator: seed()
) -> Leaf("int array", "the tokens", exactly="int64"):
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.unsqueeze(1).expand(batch, repeats, period).flatten(1)


def plain(batch, period, repeats, vocab_size, generator):
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    tokens = block.repeat(1, repeats)
    return tokens


def cases(case):
    for vocab in (range(11, 30), range(50, 200), range(11, 30)):
        yield case("values", "{B} rows of {repeats} blocks of {period}", vocab=vocab)
    yield case("values", "two repeats", repeats=2, vocab=40)
    yield case(
        "values",
        "a generator that was drawn from before",
        vocab=60,
        generator=Rng(int(case.rng.integers(2**31)), used=True),
    )
    yield case("edge cases", "a single row", B=1, vocab=30)
    yield case("edge cases", "blocks of one token", period=1, vocab=30)
    yield case("edge cases", "each block once", repeats=1, vocab=30)
    yield case("edge cases", "a vocabulary of one token", vocab=1)
    yield case("edge cases", "ids far above 65,535 (vocab_size = {vocab})", vocab=10**15)  # no table can be this large


def drawn(
    batch, period, repeats, vocab_size, generator, *,
    shape=lambda b, p, r: (b, p), low=0, high=0, repeat=lambda block, r: block.repeat(1, r),
):  # fmt: skip
    """Draw once and repeat, with an option for each slip."""
    return repeat(torch.randint(low, vocab_size + high, shape(batch, period, repeats), generator=generator), repeats)


def without_repetition(batch, period, repeats, vocab_size, generator):
    rows = [torch.randperm(max(vocab_size, period), generator=generator)[:period] for _ in range(batch)]
    return torch.stack(rows).repeat(1, repeats)


def second_draw(batch, period, repeats, vocab_size, generator):
    torch.randint(vocab_size, (batch, period), generator=generator)
    return repeated_sequences(batch, period, repeats, vocab_size, generator)


MISTAKES = (
    ("each-token-repeated", {"repeat": lambda block, r: block.repeat_interleave(r, 1)},
     "You repeat each token before the next one comes. Repeat the block as a whole."),
    ("same-block-in-all-rows", {"repeat": lambda block, r: block[:1].expand_as(block).repeat(1, r)},
     "All your rows hold the same block. Draw one for each row."),
    ("not-repeated", {"shape": lambda b, p, r: (b, p * r), "repeat": lambda block, r: block},
     "You draw all tokens, so nothing is repeated. Draw one block and repeat it."),
    ("token-zero-missing", {"low": 1, "high": 1},
     "You never draw token 0. Ids run from 0 to vocab_size − 1."),
    ("drawn-from-one", {"low": 1},
     "You draw ids from 1, so token 0 never comes. Ids run from 0 to vocab_size − 1."),
    ("drawn-transposed", {"shape": lambda b, p, r: (p, b), "repeat": lambda block, r: block.T.repeat(1, r)},
     "You draw the blocks as (period, batch) and transpose them, which gives other tokens. Draw (batch, period)."),
    ("tokens-without-repetition", without_repetition,
     "You draw the tokens of a block without repetition. Here a block may hold a token twice."),
    ("drawn-anew-for-each-repeat",
     lambda b, p, r, vocab, g: torch.cat([torch.randint(vocab, (b, p), generator=g) for _ in range(r)], 1),
     "You draw every block separately, so nothing comes back. Draw once, and repeat what you drew."),
    ("first-draw-thrown-away", second_draw,
     "You make a draw before the one that you use, which gives other tokens. Ask the generator once."),
    ("rounded-fractions",
     lambda b, p, r, vocab, g: (torch.rand(b, p, generator=g) * vocab).long().repeat(1, r),
     "You draw fractions and round them down to ids, which gives other tokens. Draw whole numbers."),
)  # fmt: skip

EXERCISE = exercise(repeated_sequences, slipped=drawn, library="torch", credit={"values": 0.7, "edge cases": 0.3})
