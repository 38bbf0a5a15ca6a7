"""Defines the exercise `apply_merges`, byte-pair encoding of one piece of text with a tokeniser's merges."""

from collections import Counter
from itertools import pairwise

from ..kit import Leaf, exercise


def apply_merges(symbols, ranks) -> Leaf("text list", "the list"):
    """Process the whole text once for each pair, in the order of training."""
    for pair in sorted(ranks, key=ranks.__getitem__):
        symbols = join(symbols, pair)
    return list(symbols)


def join(symbols, pair):
    """Join the pair wherever it occurs, from left to right."""
    joined = []
    for i in range(len(symbols)):
        if joined and (joined[-1], symbols[i]) == pair:
            joined[-1] = joined[-1] + symbols[i]
        else:
            joined.append(symbols[i])
    return joined


def plain(symbols, ranks):
    symbols = list(symbols)
    for _ in ranks:  # no pair is joined in two rounds, because a joined symbol has a higher rank than its parts
        neighbours = pairwise(symbols)
        known = [pair for pair in neighbours if pair in ranks]
        if known:
            pair = min(known, key=ranks.get)
            symbols = join(symbols, pair)
    return symbols


# ---------------------------------------------------------------------------------------------------------------------
# Merges and pieces


def learnt(rng, letters="abcd", count=12, length=300):
    """Draw merges, pair -> rank, as training finds them, by joining the most frequent pair of a random text repeatedly.

    Ranks have gaps and start above 0, the dict has another order, and no text results from two pairs.
    """
    chances = rng.dirichlet([2.0] * len(letters))
    symbols, pairs = list(rng.choice(list(letters), length, p=chances)), []
    while len(pairs) < count:
        made = {"".join(pair) for pair in pairs}
        counts = Counter(pair for pair in pairwise(symbols) if "".join(pair) not in made)
        pairs.append(max(counts, key=lambda pair: (counts[pair], pair)))
        symbols = join(symbols, pairs[-1])
    ranks = sorted(1 + int(rank) for rank in rng.permutation(5 * count)[:count])
    order = rng.permutation(count)
    return {pairs[i]: ranks[i] for i in order}


def piece(rng, ranks, count):
    """Draw letters on which the wrong orders in TELLING give other results."""
    letters = sorted({letter for pair in ranks for letter in "".join(pair)})
    for _ in range(500):
        symbols = [str(letter) for letter in rng.choice(letters, count)]
        right = apply_merges(symbols, ranks)
        if all(wrong(symbols, ranks) != right for wrong in TELLING):
            break
    return symbols


def cases(case):
    rng = case.rng
    for count in rng.permutation([14, 17, 20]):
        ranks = learnt(rng)
        yield case("values", f"{count} symbols", symbols=piece(rng, ranks, int(count)), ranks=ranks)
    yield case("values", "two pairs that share a symbol", **renamed(rng, "abc", [("b", "c"), ("a", "b")]))
    yield case("values", "the right pair has the lower rank", **renamed(rng, "abcab", [("b", "c"), ("a", "b")]))
    yield case("values", "the left pair has the lower rank", **renamed(rng, "abcbc", [("a", "b"), ("b", "c")]))
    yield case("values", "the same pair twice in a row", **renamed(rng, "ababc", [("a", "b"), ("b", "c")]))
    yield case("values", "two ways to begin", **renamed(rng, "abcab", [("b", "c"), ("a", "bc"), ("a", "b")]))
    yield case("overlaps", "a letter three and five times in a row", **renamed(rng, "aaabaaaaaba", [("a", "a")]))
    twice = [("a", "a"), ("aa", "aa")]
    yield case("overlaps", "a run of seven, joined twice", **renamed(rng, "aaaaaaa", twice))
    yield case("overlaps", "a run, and what it is joined with", **renamed(rng, "baaab", [("a", "a"), ("a", "b")]))
    # The merges can make "abc" as ab + c, but here it is a + bc.
    ways = [("b", "c"), ("a", "b"), ("ab", "c")]
    yield case("values", "a text that is known, as another pair", **renamed(rng, "abcabd", ways))
    yield case("edge cases", "no symbols", symbols=[], ranks=learnt(rng))
    yield case("edge cases", "one symbol", symbols=["a"], ranks=learnt(rng))
    yield case("edge cases", "no merges", symbols=list("abca"), ranks={})
    yield case("edge cases", "no pair that is known", **renamed(rng, "acacca", [("b", "c"), ("a", "b")]))
    yield case("edge cases", "all becomes one symbol", **renamed(rng, "abab", [("a", "b"), ("ab", "ab")]))
    whole = {("th", "e"): 4, ("e", "r"): 2, ("th", "er"): 9, ("ing", "s"): 0}
    known = ["th", "e", "th", "e", "r", "ing", "s", "th"]
    yield case("edge cases", "symbols of several letters from the start", symbols=known, ranks=whole)
    signs = {("Ġ", "t"): 0, ("Ġt", "h"): 3, ("Ã", "©"): 1, ("h", "e"): 7, ("Ġth", "e"): 8}
    letters = "abcdefghijklmnopqrstuvwx"
    high = sorted(map(int, rng.choice(48_900, 23, replace=False)))
    ranks = {(letters[:i], letters[i]): high[i - 1] for i in range(1, 24)}
    yield case("edge cases", "23 rounds, and ranks up to 48,900", symbols=list(letters), ranks=ranks)
    yield case("edge cases", "signs that stand for a space and for bytes", symbols=list("ĠthÃ©Ġthe"), ranks=signs)
    ranks = learnt(rng, "abcde")
    yield case("values", "40 symbols of five kinds", symbols=piece(rng, ranks, 40), ranks=ranks)


def renamed(rng, symbols, pairs):
    """Rename the letters, with ranks that rise along `pairs` and a dict in another order."""
    names = dict(zip("abcd", map(str, rng.permutation(list("kmnpstuw"))[:4]), strict=True))

    def new(text):
        return "".join(names[letter] for letter in text)

    ranks = sorted(1 + int(rank) for rank in rng.permutation(20)[: len(pairs)])
    known = {(new(a), new(b)): rank for (a, b), rank in zip(pairs, ranks, strict=True)}
    return {"symbols": [new(letter) for letter in symbols], "ranks": dict(reversed(known.items()))}


# ---------------------------------------------------------------------------------------------------------------------
# Known mistakes


def merged(
    symbols, ranks, *, choose=min, by=lambda ranks, at: ranks.__getitem__, again=True, from_right=False,
):  # fmt: skip
    """Merge with slips.

    choose: which of the known pairs is next. by: the key by which it is chosen. again: whether there is a second round.
    from_right: whether a round starts at the end.
    """
    symbols = list(symbols)
    while True:
        at = {pair: i for i, pair in reversed([*enumerate(pairwise(symbols))]) if pair in ranks}
        if not at:
            return symbols
        pair = choose(at, key=by(ranks, at))
        if from_right:
            turned = join([one[::-1] for one in symbols[::-1]], (pair[1][::-1], pair[0][::-1]))
            symbols = [one[::-1] for one in turned[::-1]]
        else:
            symbols = join(symbols, pair)
        if not again:
            return symbols


def by_place(symbols, ranks):
    """Join only the leftmost known pair, then start from the left again."""
    symbols = list(symbols)
    while True:
        at = next((i for i, pair in enumerate(pairwise(symbols)) if pair in ranks), None)
        if at is None:
            return symbols
        symbols[at : at + 2] = ["".join(symbols[at : at + 2])]


def by_order_of_the_dict(symbols, ranks):
    return merged(symbols, ranks, by=lambda ranks, at: [*ranks].index)


def pair_by_pair(symbols, ranks):
    for pair in ranks:
        symbols = join(symbols, pair)
    return symbols


def in_one_text(symbols, ranks):
    text = " ".join(symbols)
    for pair in sorted(ranks, key=ranks.__getitem__):
        text = text.replace(" ".join(pair), "".join(pair))
    return text.split()


def highest_first(symbols, ranks):
    return merged(symbols, ranks, choose=max)


def longest_known(symbols, ranks):
    """Cut the text from the left into the longest known texts."""
    text, known = "".join(symbols), {"".join(pair) for pair in ranks}
    found = []
    while text:
        size = max(size for size in range(1, len(text) + 1) if size == 1 or text[:size] in known)
        found.append(text[:size])
        text = text[size:]
    return found


def one_pass(symbols, ranks):
    found = []
    for symbol in symbols:
        if found and (found[-1], symbol) in ranks:
            found[-1] += symbol
        else:
            found.append(symbol)
    return found


def overlapping(symbols, ranks):
    while known := [pair for pair in pairwise(symbols) if pair in ranks]:
        pair, found, skip = min(known, key=ranks.__getitem__), [], False
        for i, here in enumerate(zip(symbols, [*symbols[1:], None], strict=True)):
            if here == pair:
                found.append(symbols[i] + symbols[i + 1])
            elif not skip:
                found.append(symbols[i])
            skip = here == pair
        symbols = found
    return list(symbols)


def by_joined_text(symbols, ranks):
    texts = {"".join(pair): rank for pair, rank in ranks.items()}
    while known := [pair for pair in pairwise(symbols) if "".join(pair) in texts]:
        symbols = join(symbols, min(known, key=lambda pair: texts["".join(pair)]))
    return list(symbols)


#: Mistakes that an ordinary piece must distinguish from the correct result.
TELLING = (by_place, by_order_of_the_dict, highest_first, longest_known, one_pass)

MISTAKES = (
    ("by-place", by_place,
     "In each step, you join the leftmost known pair. Join the known pair of the lowest rank, wherever it is."),
    ("one-round", {"again": False},
     "You join one pair and stop. What you joined forms new pairs, so go on until none of them is known."),
    ("one-pass", one_pass,
     "You go through the symbols once, from left to right. Which pair is joined next depends on all of them."),
    ("longest-known", longest_known,
     "You cut the text into the longest known pieces. A tokeniser joins pairs, in the order of their ranks."),
    ("overlapping", overlapping,
     "In a row of three equal symbols you use the middle one twice. Once it is joined it is gone."),
    ("by-order-of-the-dict", by_order_of_the_dict,
     "You take the pairs in the order of the dict. Their ranks are its values."),
    ("pair-by-pair", pair_by_pair,
     "You go through the pairs in the order of the dict, each once. Their order is that of the ranks, its values."),
    ("in-one-text", in_one_text,
     "You replace the pairs in one text, where the end of a longer symbol counts as one. Compare whole symbols."),
    ("from-letters", lambda symbols, ranks: apply_merges("".join(symbols), ranks),
     "You take the symbols apart into letters. They may have several from the start, and nothing joins those later."),
    ("by-joined-text", by_joined_text,
     "You look pairs up by their text. The same text from other parts is another pair, so look up the pair itself."),
    ("from-right", {"from_right": True},
     "In a row of three equal symbols you join the last two. Join from left to right."),
)  # fmt: skip

EXERCISE = exercise(
    apply_merges,
    credit={"values": 0.6, "overlaps": 0.2, "edge cases": 0.2},
    slipped=merged,
    library="torch",
)
