"""Defines the exercise `greedy_decode`, which appends the likeliest token until `end` comes or `max_len` is reached."""

import numpy as np
import torch

from ..kit import HostFunction, Leaf, exercise
from .greedy_told import experiment


def greedy_decode(next_logits, start, end, max_len: int) -> Leaf("int list", "the tokens"):
    tokens = [start]
    while len(tokens) < max_len and not (len(tokens) > 1 and tokens[-1] == end):
        tokens.append(int(next_logits(list(tokens)).argmax()))
    return tokens


def plain(next_logits, start, end, max_len):
    tokens = [start]
    for _ in range(max_len - 1):
        logits = next_logits(list(tokens))
        token = int(logits.argmax())
        tokens.append(token)
        if token == end:
            break
    return tokens


def model(seed, vocab, plan, lead=None, large=0, close=False, ints=False):
    """Return a model that follows `plan` as long as it gets all tokens so far; other contexts get other random logits.

    lead: how far the best logit leads; None: by 2 or more. large: 1 or -1 for logits several thousand above or
    below 0. close: the best logit leads that of the previous id by a few billionths. ints: it accepts only Python ints.
    """

    def next_logits(tokens):
        if not isinstance(tokens, list) or not tokens:
            raise TypeError("next_logits takes the list of all tokens so far")
        if ints and not all(type(token) is int for token in tokens):
            raise TypeError("next_logits takes a list of Python ints")
        tokens = [int(token) for token in tokens]
        logits = np.random.default_rng([seed, *tokens]).standard_normal(vocab) - 3.0
        if tokens == plan[: len(tokens)] and len(tokens) < len(plan):
            best = plan[len(tokens)]
            logits[best] = np.ceil(logits.max()) + 2.0
            if lead is not None:
                others = np.delete(logits, best)
                logits[best] = np.floor(others.max() * 64) / 64 + lead + 1 / 64
            if close:
                logits[max(best - 1, 0)] = logits[best] - 2.0**-28 * (best > 0)
        return 1000.0 * (logits + 8.0 if large > 0 else logits - 12.0) if large else logits

    return HostFunction(next_logits)


def cases(case):
    def sentence(criterion, label, steps, max_len, ends=True, same=False, starts_again=False, zero="", **how):
        """steps: tokens between start and end. ends: False if no end comes. same: start and end are one token.

        zero: "start" or "end" if that is the token 0, which is false in a condition.
        """
        rng, vocab = case.rng, int(case.rng.integers(9, 15))
        start, end = (1 + rng.permutation(vocab - 1)[:2]).tolist()
        start, end = 0 if zero == "start" else start, 0 if zero == "end" else end
        start = end if same else start
        words = [token for token in range(vocab - 3) if token not in (start, end)]
        # No token occurs twice in a row here; another case tests that.
        middle = [words[place] for place in rng.integers(1, len(words), steps).cumsum() % len(words)]
        if starts_again:
            middle[steps // 2] = start
        plan = [start, *middle, end if ends else int(rng.choice(words)), *rng.choice(words, 6).tolist()]
        next_logits = model(int(rng.integers(2**31)), vocab, plan, **how)
        given = {"next_logits": next_logits, "start": start, "end": end, "max_len": max_len}
        return case(criterion, label, also={"vocab": vocab}, **given)

    long = int(case.rng.integers(5, 9))
    yield sentence("values", f"the end comes after {long} tokens", long, long + 6)
    yield sentence("values", "the end comes after 3 tokens", 3, 12)
    yield sentence("values", f"the end does not come within {long} tokens", long + 3, long, ends=False)
    yield sentence("values", "a longer sentence", 12, 30)
    yield sentence("edge cases", "room for start alone (max_len = 1)", 3, 1)
    yield sentence("edge cases", "room for two tokens (max_len = 2)", 3, 2)
    yield sentence("edge cases", "the end comes at once", 0, 8)
    yield sentence("edge cases", "the end is the last token that fits", 4, 6)
    yield sentence("edge cases", "start and end are the same token", 4, 12, same=True)
    yield sentence("edge cases", "the end is token 0", 4, 12, zero="end")
    yield sentence("edge cases", "the start is token 0", 4, 12, zero="start")
    yield sentence("edge cases", "the start token comes again", 5, 12, starts_again=True)
    yield sentence("edge cases", "logits that differ by little", 6, 12, lead=0.02)
    yield sentence("edge cases", "logits of about 10,000", 5, 12, large=1)
    yield sentence("edge cases", "logits of about -10,000", 5, 12, large=-1)
    yield sentence("edge cases", "logits that differ by a few billionths", 6, 12, close=True)
    yield sentence("edge cases", "a long text (max_len = 130)", 120, 130)
    rng, vocab = case.rng, 300
    start, middle, end = (rng.permutation(np.arange(1, 250))[:3]).tolist()
    plan = [start, 0, vocab - 1, vocab - 1, middle, middle, 0, end]
    given = {"start": start, "end": end, "max_len": 12, "also": {"vocab": vocab}}
    strict = model(int(rng.integers(2**31)), vocab, plan, ints=True)
    yield case("edge cases", "a vocabulary of 300; its first token and its last, twice", next_logits=strict, **given)


def best(logits):
    return int(logits.argmax())


def decoded(next_logits, start, end, max_len, *, pick=best, context=list, after=list):
    """Decode with slips."""
    tokens = [start]
    while len(tokens) < max_len and not (len(tokens) > 1 and tokens[-1] == end):
        tokens.append(pick(next_logits(context(tokens))))
    return after(tokens)


def without_end(next_logits, start, end, max_len):
    tokens = greedy_decode(next_logits, start, end, max_len)
    return tokens[:-1] if len(tokens) > 1 and tokens[-1] == end else tokens


def sampled(logits):
    generator = torch.Generator().manual_seed(0)
    return int(torch.multinomial(torch.softmax(logits / 4, 0), 1, generator=generator))


MISTAKES = (
    ("start-missing", {"after": lambda tokens: tokens[1:]}, "You leave out the start token at the front."),
    ("end-missing", without_end, "You leave out the end token. It belongs to the result when it is generated."),
    ("one-too-many", lambda f, start, end, max_len: greedy_decode(f, start, end, max_len + 1),
     "You return one token too many. max_len counts all tokens, start included."),
    ("last-token-only", {"context": lambda tokens: tokens[-1:]},
     "You show the model only the last token. Show it all tokens so far."),
    ("start-only", {"context": lambda tokens: tokens[:1]},
     "You show the model only the first token. Show it all tokens so far."),
    ("start-not-shown", {"context": lambda tokens: tokens[1:] or tokens}, "You don't show the model the start token."),
    ("lowest-logit", {"pick": lambda logits: int(logits.argmin())}, "You take the token with the lowest logit."),
    ("second-best", {"pick": lambda logits: int(logits.argsort(descending=True)[1])},
     "You take the second best token."),
    ("rounded-logits", {"pick": lambda logits: int(logits.round().argmax())},
     "You round the logits, so near ones tie. Compare them as they are."),
    ("overflowing-exponentials", {"pick": lambda logits: int(logits.float().exp().argmax())},
     "Large logits overflow in your exponential. The largest logit needs no softmax."),
    ("sampled", {"pick": sampled}, "You draw the next token at random. Take the most likely one."),
    ("stops-at-start", lambda f, start, end, n: [start] if start == end else greedy_decode(f, start, end, n),
     "Your loop stops before it begins where start and end are the same. Stop only at a generated end token."),
)  # fmt: skip

EXERCISE = exercise(
    greedy_decode, credit={"values": 0.7, "edge cases": 0.3}, slipped=decoded, experiment=experiment, library="torch"
)
