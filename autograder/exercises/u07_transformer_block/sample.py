"""Defines the exercise `sample`, in which a model continues a text by drawing among the likeliest tokens."""

import numpy as np
import torch

from ..kit import HostFunction, Leaf, Rng, exercise, seed
from ..kit.random_inputs import Drawn
from .sample_told import experiment

#: Logits of an end that is never drawn before it is planned, and of an end that is certain.
NEVER, ALWAYS = -60.0, 200.0


def some(*choices) -> Drawn:
    return Drawn("", lambda rng, shape, sizes: choices[int(rng.integers(len(choices)))])


def sample(
    next_logits, prompt, end, max_len, temperature: some(0.6, 0.8, 1.5), top_p: some(0.6), generator: seed()
) -> Leaf("int list", "the tokens"):
    tokens = list(prompt)
    while len(tokens) < max_len and end not in tokens[len(prompt) :]:
        logits = next_logits(list(tokens))
        if temperature == 0:
            tokens.append(int(torch.sort(logits, descending=True).indices[0]))
            continue
        p = torch.softmax((logits - logits.max()) / temperature, dim=0)
        # A token is kept if those likelier than it have less than top_p together, and the likeliest always is.
        before = torch.stack([p[p > own].sum() for own in p])
        kept = (before < top_p) | (p == p.max())
        tokens.append(int(torch.multinomial(p * kept, 1, generator=generator)))
    return tokens


def levels(rng, vocab, flat=False):
    """Draw descending logits with clear gaps. flat: True for small gaps, or a factor for the gaps."""
    return -np.cumsum(rng.uniform(0.25, 0.6, vocab)) * (0.1 if flat is True else flat or 1.0)


def between(ordered, temperature, kept):
    """Return the top_p that keeps `kept` of the logits, halfway between two cumulative sums."""
    p = np.exp(ordered / temperature) / np.exp(ordered / temperature).sum()
    sums = np.cumsum(p)
    return float((sums[kept - 1] + (sums[kept - 2] if kept > 1 else 0.0)) / 2)


def model(key, ordered, end, stops, likely=None, sharp=1.0, large=1.0):
    """Return a model that gives each text the same logits in another order, and `end` for certain after `stops` tokens.

    stops: the number of tokens before the end; None: it never comes.
    likely: the logit of the end until then; None: almost no probability. sharp: a factor for the logits of every other
    length of text. large: the scale of the logits of the end.
    """

    def next_logits(tokens):
        if not isinstance(tokens, list) or not tokens:
            raise TypeError("next_logits takes the list of all tokens so far")
        rng = np.random.default_rng([key, *(int(token) for token in tokens)])
        # The shift changes no probability; added to tiny logits, it would make them all equal.
        logits, shift = rng.permutation(ordered), rng.normal() if ordered.min() < -1e-9 else 0.0
        logits = np.insert(logits + shift, end, large * NEVER if likely is None else likely + shift)
        if len(tokens) % 2:
            logits = logits * sharp
        if stops is not None and len(tokens) >= stops:
            logits[end] = large * ALWAYS
        return logits

    return HostFunction(next_logits)


def plain(next_logits, prompt, end, max_len, temperature, top_p, generator):
    tokens = list(prompt)
    room = max_len - len(prompt)
    for _ in range(room):
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax())
        else:
            shifted = logits - logits.max()
            p = torch.softmax(shifted / temperature, 0)
            ordered, order = p.sort(descending=True)
            before = ordered.cumsum(0) - ordered
            kept = before < top_p
            kept[0] = True
            p[order[~kept]] = 0.0
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def cases(case):
    def text(
        criterion, label, temperature, kept=None, prompt=2, new=12, room=None, ends=True, large=1.0, with_end=None,
        flat=False, top_p=None, end=None, vocab=None, likely=False, sharp=1.0, **more,
    ):  # fmt: skip
        """kept: how many ids top_p keeps; None: all, unless a `top_p` is given. new: tokens before the end.

        room: the maximal number of new tokens.

        with_end: a position in the prompt that contains the end. flat: all ids are about equally likely.

        likely: whether the end is the likeliest of the ids that top_p leaves out; if not, it only comes where planned.
        """
        rng, vocab = case.rng, vocab or int(case.rng.integers(10, 15))
        ordered = large * levels(rng, vocab - 1 + likely, flat)
        end = int(rng.integers(1, vocab - 1)) if end is None else end
        others = np.delete(ordered, kept) if likely else ordered
        start = [int(token) for token in rng.permutation([t for t in range(vocab) if t != end])[:prompt]]
        if with_end is not None:
            start[with_end] = end
        given = {
            "next_logits": model(
                int(rng.integers(2**31)),
                others,
                end,
                prompt + new if ends else None,
                ordered[kept] if likely else None,
                sharp,
                max(large, 1.0),
            ),
            "prompt": start,
            "end": end,
            "max_len": prompt + (new + 5 if room is None else room),
            "temperature": temperature,
            "top_p": top_p,
        }
        if top_p is None:
            given["top_p"] = 0.999999 if kept is None else between(ordered, temperature or 1.0, kept)
        return case(criterion, label, also={"vocab": vocab}, **given, **more)

    yield text("zero temperature", "temperature 0, the end comes after 8 tokens", 0.0, new=8)
    yield text("zero temperature", "temperature 0, a top_p that keeps three", 0, kept=3, new=8)
    yield text("zero temperature", "temperature 0, no end within the room there is", 0.0, room=6, ends=False)
    yield text("other temperatures", "temperature 1, nothing cut", 1.0)
    yield text("other temperatures", "temperature 0.6, nothing cut", 0.6)
    yield text("other temperatures", "temperature 1.7, nothing cut", 1.7)
    for kept, temperature, new in ((2, 1.0, 16), (4, 1.0, 16), (3, 3.0, 28), (3, 0.7, 16), (5, 1.2, 16)):
        yield text("top_p", f"temperature {temperature}, a top_p that keeps {kept}", temperature, kept=kept, new=new)
    yield text("top_p", "many ids that are about equally likely", 1.0, kept=6, new=16, flat=True)
    yield text("top_p", "a top_p so small that one id is left", 1.0, kept=1)
    yield text("edge cases", "the end stands in the prompt", 1.0, prompt=4, with_end=1)
    yield text("edge cases", "the prompt closes with the end", 0.8, kept=4, prompt=3, with_end=2)
    yield text("edge cases", "no room for a new token", 1.0, prompt=5, room=0)
    yield text("edge cases", "room for one new token", 1.0, kept=3, prompt=4, room=1)
    yield text("edge cases", "the end comes at once", 1.0, kept=3, new=0)
    yield text("edge cases", "no end within the room there is", 1.0, kept=4, new=9, room=9, ends=False)
    for flat in (False, True):
        yield text("ends of the scales", "a top_p of 1", 1.0, new=16, flat=flat, top_p=1)
    yield text("ends of the scales", "a top_p of 0", 1.0, top_p=0.0)
    yield text("ends of the scales", "a temperature of 1e-307", 1e-307, large=1e3, top_p=0.9)
    yield text("ends of the scales", "a temperature of 0.0001, logits as near to each other", 1e-4, kept=4, large=1e-4)
    yield text("edge cases", "logits of several thousand, divided by a temperature as large", 1000.0, kept=3, large=1e3)
    yield text("edge cases", "a prompt of one token, and the end is id 0", 1.0, kept=3, prompt=1, end=0)
    used = Rng(int(case.rng.integers(2**31)), used=True)
    label = "400 ids, and a generator from which others have drawn"
    yield text("edge cases", label, 1.0, kept=300, flat=0.01, vocab=400, generator=used)
    label = "the end is likely, and top_p leaves it out"
    yield text("top_p", label, 1.0, kept=3, flat=True, ends=False, room=20, likely=True)
    label = "every other token one id is left, and else several"
    yield text("top_p", label, 1.0, kept=5, flat=True, new=20, sharp=100.0)
    yield text("ends of the scales", "a temperature of 1e-310", 1e-310, top_p=0.9)
    label = "a temperature of 1e-300, logits as near to each other"
    yield text("ends of the scales", label, 1e-300, kept=4, large=1e-300)


def by_sum(p, top_p, *, more=0):
    """Keep the fewest most likely ids that reach top_p, or `more` than those."""
    ordered = p.sort(descending=True)
    count = int((ordered.values.cumsum(0) < top_p).sum()) + 1 + more
    return torch.zeros_like(p).scatter(0, ordered.indices[: max(count, 1)], 1.0) * p


def in_order_of_likeliness(p, generator, *, mapped):
    ordered = p.sort(descending=True)
    place = int(torch.multinomial(ordered.values, 1, generator=generator))
    return int(ordered.indices[place]) if mapped else place


def written(
    next_logits, prompt, end, max_len, temperature, top_p, generator, *,
    keep=by_sum, first_cut=False, context=lambda tokens: tokens,
    draw=lambda p, generator: int(torch.multinomial(p, 1, generator=generator)),
    stops=lambda tokens, start, end: end in tokens[start:],
):  # fmt: skip
    """Sample with an option for each slip."""
    tokens, start = list(prompt), len(prompt)
    while len(tokens) < max_len and not stops(tokens, start, end):
        logits = next_logits(context(list(tokens)))
        if temperature == 0:
            tokens.append(int(logits.argmax()))
            continue
        p = torch.softmax((logits - logits.max()) / temperature, 0)
        p = p * (keep(torch.softmax(logits, 0), top_p) > 0) if first_cut else keep(p, top_p)
        tokens.append(draw(p, generator))
    return tokens


MISTAKES = (
    ("one-id-too-many", {"keep": lambda p, top_p: by_sum(p, top_p, more=1)},
     "You keep one id too many. Without the least likely of them the sum already reaches top_p."),
    ("cut-before-the-temperature", {"first_cut": True},
     "You cut by the probabilities without the temperature. Apply the temperature first, then cut."),
    ("each-by-itself", {"keep": lambda p, top_p: torch.where(p >= (1 - top_p) * p.max(), p, 0.0)},
     "You compare each id with a threshold by itself. top_p is about the sum of the most likely ones."),
    ("places-for-ids", {"draw": lambda p, generator: in_order_of_likeliness(p, generator, mapped=False)},
     "You return the place in the sorted list. Which id is at that place?"),
    ("drawn-from-a-sorted-list", {"draw": lambda p, generator: in_order_of_likeliness(p, generator, mapped=True)},
     "Your draw is fair, but it is from a sorted or shortened list, which gives other tokens for the same generator. "
     "Give multinomial the probabilities of all ids, in the order of the ids."),
    ("generator-ignored", lambda *args: sample(*args[:-1], torch.Generator().manual_seed(0)),
     "You draw the tokens with a generator that has a seed of its own. Use the one that you are given."),
    ("prompt-ends-it", {"stops": lambda tokens, start, end: end in tokens},
     "You stop at an end token in the prompt. Stop only at one that the model wrote."),
    ("last-token-only", {"context": lambda tokens: tokens[-1:]},
     "You show the model only the last token. Show it all, the prompt first."),
)  # fmt: skip

EXERCISE = exercise(
    sample,
    credit={
        **{"zero temperature": 0.2, "other temperatures": 0.2},
        **{"top_p": 0.3, "edge cases": 0.15, "ends of the scales": 0.15},
    },
    slipped=written,
    experiment=experiment,
    library="torch",
)
