"""Defines the exercise `speculative_step`, which keeps accepted draft tokens and draws the token after them."""

import numpy as np
import torch

from ..kit import Leaf, Rng, exercise, seed


def speculative_step(draft, p_draft, p_target, generator: seed()) -> Leaf("int list", "the list"):
    """Compute all acceptance chances at once."""
    k = len(draft)
    u = torch.rand(k, generator=generator)
    chance = p_target[:-1].gather(1, draft[:, None]) / p_draft.gather(1, draft[:, None])
    kept = int((u < chance[:, 0]).cumprod(0).sum())
    padded = torch.cat([p_draft, torch.zeros_like(p_draft[:1])])
    left = torch.relu(p_target[kept] - padded[kept])
    last = torch.multinomial(left / left.sum(), 1, generator=generator)
    return [*draft[:kept].tolist(), int(last)]


def plain(draft, p_draft, p_target, generator):
    k = draft.shape[0]
    u, tokens = torch.rand(k, generator=generator), []
    for i in range(k):
        token = int(draft[i])
        if u[i] * p_draft[i, token] < p_target[i, token]:
            tokens.append(token)
        else:
            difference = p_target[i] - p_draft[i]
            left = difference.clamp(min=0)
            p = left / left.sum()
            last = torch.multinomial(p, 1, generator=generator)
            tokens.append(int(last))
            return tokens
    last = torch.multinomial(p_target[k], 1, generator=generator)
    tokens.append(int(last))
    return tokens


def distributions(rng, rows, vocab, sharp=1.0):
    """Draw (rows, vocab), where each row is a softmax."""
    raised = np.exp(sharp * rng.standard_normal((rows, vocab)))
    return raised / raised.sum(-1, keepdims=True)


TRIES = 20_000


def drafted(case, criterion, label, kept, k, *, vocab=None, sharp=1.2, dtype=np.float64, told=(), used=False, **more):
    """Draw a draft of which `kept` tokens stay, and for which the slips in `told` give other tokens, each its own."""
    rng, vocab = case.rng, vocab or int(case.rng.integers(7, 12))
    for _ in range(TRIES):
        p_draft, p_target = distributions(rng, k, vocab, sharp), distributions(rng, k + 1, vocab, sharp)
        p_draft, p_target = (one.astype(np.float32).astype(dtype) for one in (p_draft, p_target))
        draft = np.array([rng.choice(vocab, p=row / row.sum()) for row in p_draft.astype(float)])
        source = Rng(int(rng.integers(2**31)), used=used)
        given = [torch.from_numpy(one) for one in (draft, p_draft, p_target)]
        right, turned = speculative_step(*given, fresh(source)), [one.flip(*range(one.ndim)) for one in given]
        # The grader also flips the inputs.
        too_many = kept < k < len(speculative_step(*turned, fresh(Rng(source.seed ^ 1, used=used))))
        if len(right) != kept + 1 or not clear(*given, fresh(source)) or too_many:
            continue
        found = [right, *(written(*given, fresh(source), **SLIPS[slug]) for slug in told)]
        if found.count(right) == 1 and (len(told) != 2 or found[1] != found[2]):
            more.update(draft=draft, p_draft=p_draft, p_target=p_target, generator=source)
            return case(criterion, label.format(kept=kept, k=k), also={"k": k, "vocab": vocab}, **more)
    raise ValueError(f"found no draft of {k} tokens of which {kept} stay and that tells {', '.join(told)} apart")


def the_same(case):
    """Draw two models that agree, so that every token stays."""
    rng, k, vocab = case.rng, 4, int(case.rng.integers(7, 12))
    p_target = distributions(rng, k + 1, vocab)
    given = {"draft": rng.integers(vocab, size=k), "p_draft": p_target[:k], "p_target": p_target}
    return case("edge cases", "a draft model that is the target itself", **given)


def certain(case):
    """Draw a target that is certain of another token than the draft's second, with chances of 0 in both."""
    rng, vocab = case.rng, int(case.rng.integers(7, 12))
    first, other, drafted_token = (int(token) for token in rng.permutation(vocab)[:3])
    p_draft, p_target = np.zeros((2, vocab)), np.zeros((3, vocab))
    p_draft[0, first] = p_draft[1, drafted_token] = p_target[0, first] = p_target[1, other] = 1.0
    p_target[2] = 1 / vocab
    given = {"draft": np.array([first, drafted_token]), "p_draft": p_draft, "p_target": p_target}
    return case("edge cases", "models that are sure: chances of 0 and 1", **given)


def fresh(source):
    """Return the generator that a call gets."""
    generator = torch.Generator().manual_seed(source.seed)
    if source.used:
        torch.rand(1, generator=generator)
    return generator


def clear(draft, p_draft, p_target, generator):
    """Return whether every token is far enough from rejection that rounding can't decide."""
    rows = torch.arange(len(draft))
    chance = p_target[rows, draft] / p_draft[rows, draft]
    return bool(((torch.rand(len(draft), generator=generator) - chance).abs() > 1e-3).all())


# ---------------------------------------------------------------------------------------------------------------------
# Known mistakes


def written(
    draft, p_draft, p_target, generator, *,
    uniform=lambda k, generator: torch.rand(k, generator=generator),
    stays=lambda u, drafted, target: u * drafted < target,
    left=lambda target, drafted, token: (target - drafted).clamp(min=0), row=lambda i, k: i, keeps_all=False,
    also_refused=False, last=lambda p, generator: int(torch.multinomial(p, 1, generator=generator)),
    bonus=lambda p_target, p_draft: p_target[-1], none_when_refused=False,
):  # fmt: skip
    """Take the step with an option for each slip. left, row: what a refusal draws from; bonus: the draw if all stay."""
    k = len(draft)
    u, at = uniform(k, generator), torch.arange(k)
    good = stays(u, p_draft[at, draft], p_target[at, draft])
    first = int(good.long().cumprod(0).sum())
    tokens = draft[good].tolist() if keeps_all else draft[: first + also_refused].tolist()
    if first == k:
        p = bonus(p_target, p_draft)
        return tokens if p is None else [*tokens, int(torch.multinomial(p, 1, generator=generator))]
    if none_when_refused:
        return tokens
    place = row(first, k)
    return [*tokens, last(left(p_target[place], p_draft[min(place, k - 1)], int(draft[first])), generator)]


def in_turn(draft, p_draft, p_target, generator):
    for i, token in enumerate(draft.tolist()):
        if float(torch.rand(1, generator=generator)) * p_draft[i, token] >= p_target[i, token]:
            rest = (p_target[i] - p_draft[i]).clamp(min=0)
            return [*draft[:i].tolist(), int(torch.multinomial(rest, 1, generator=generator))]
    return [*draft.tolist(), int(torch.multinomial(p_target[-1], 1, generator=generator))]


def in_place(draft, p_draft, p_target, generator):
    u, tokens = torch.rand(len(draft), generator=generator), []
    for i, token in enumerate(draft.tolist()):
        if u[i] * p_draft[i, token] >= p_target[i, token]:
            token = int(torch.multinomial((p_target[i] - p_draft[i]).clamp(min=0), 1, generator=generator))
        tokens.append(token)
    return [*tokens, int(torch.multinomial(p_target[-1], 1, generator=generator))]


def without(target, drafted, token):
    target = target.clone()
    target[token] = 0
    return target


MISTAKES = (
    ("from-the-target", {"left": lambda target, drafted, token: target},
     "You draw the new token from the target itself. Its likely tokens came through with the draft already. Which "
     "part of each chance is still missing?"),
    ("refused-token-left-out", {"left": without},
     "You draw the new token from the target without the refused one. Others have had a part of their chance, too."),
    ("absolute-difference", {"left": lambda target, drafted, token: (target - drafted).abs()},
     "You draw tokens once more that the draft model likes too much. The sign of the difference is lost."),
    ("smaller-of-both", {"left": lambda target, drafted, token: torch.minimum(target, drafted)},
     "You draw the new token from the smaller of both chances. That part comes through with the draft already."),
    ("evenly-among-the-rest", {"left": lambda target, drafted, token: (target > drafted).to(target.dtype)},
     "You give the same chance to every token that the draft has too rarely. How much does each of them lack?"),
    ("difference-turned-round", {"left": lambda target, drafted, token: (drafted - target).clamp(min=0)},
     "You draw a new token that the draft model likes more than the target does. It should be the other way round."),
    ("softmax-of-the-difference", {"left": lambda target, drafted, token: (target - drafted).softmax(-1)},
     "You take a softmax of the difference, which lets every token come. Some have had all of their chance already."),
    ("likeliest-of-the-rest", {"last": lambda p, generator: int(p.argmax())},
     "You take the likeliest token. Draw it instead."),
    ("row-after", {"row": lambda i, k: i + 1},
     "You draw the new token from the row after the refused one's. Which place is it for?"),
    ("last-row", {"row": lambda i, k: k},
     "You draw the new token from the last row, which belongs to the place after a draft that stays as a whole."),
    ("a-little-for-all", {"left": lambda target, drafted, token: (target - drafted).clamp(min=0) + 1e-3},
     "Your new token can be any token. Those that the draft says often enough have a chance of 0."),
    ("no-chance", {"stays": lambda u, drafted, target: target >= drafted},
     "You keep a token only where the target likes it as much as the draft model does. Use the numbers u."),
    ("target-chance-alone", {"stays": lambda u, drafted, target: u < target},
     "You keep a token with the target's chance. You forget that it was drawn with the draft's chance."),
    ("draft-chance-alone", {"stays": lambda u, drafted, target: u < drafted},
     "You keep a token with the draft's chance, so the target plays no role."),
    ("quotient-turned-round", {"stays": lambda u, drafted, target: u * target < drafted},
     "You swap the two chances where you look at a token."),
    ("stays-where-refused", {"stays": lambda u, drafted, target: u * drafted >= target},
     "You keep the tokens that should be refused and refuse the others."),
    ("tokens-after-a-refusal", {"keeps_all": True},
     "You keep tokens after a refused one. They were written for a text that is no longer there."),
    ("goes-on-after-a-refusal", in_place,
     "You go on with the draft after a refused token. What follows was written for a text that is no longer there."),
    ("refused-token-stays", {"also_refused": True},
     "You keep the refused token in the list, before the one that replaces it."),
    ("nothing-more", {"bonus": lambda p_target, p_draft: None},
     "If all tokens stay, you draw nothing more. Use the target's last row."),
    ("nothing-drawn", {"none_when_refused": True},
     "Where a token is refused, you draw none, so the list would be empty if the first one is."),
    ("last-row-of-the-draft", {"bonus": lambda p_target, p_draft: p_target[-2]},
     "If all tokens stay, you draw the next one from the last token's own row. Which row comes after it?"),
    ("rest-of-the-last-row", {"bonus": lambda p_target, p_draft: (p_target[-1] - p_draft[-1]).clamp(min=0)},
     "If all tokens stay, you draw from what the draft leaves of the target's last row. Nothing was drafted there."),
    ("numbers-one-by-one", in_turn,
     "You draw the numbers u one after the other, as far as you need them. Draw all k first, in one call."),
    ("numbers-in-float64", {"uniform": lambda k, generator: torch.rand(k, dtype=torch.float64, generator=generator)},
     "Your numbers u are not those of torch.rand(k, generator=generator), because another dtype gives other numbers."),
    ("generator-ignored", {"uniform": lambda k, generator: torch.rand(k, generator=torch.Generator().manual_seed(0))},
     "Your numbers u do not come from the generator that you are given."),
)  # fmt: skip
SLIPS = {slug: how for slug, how, _ in MISTAKES if isinstance(how, dict)}

#: Slips of the draw after a refusal, and of the choice of tokens.
DRAW = tuple(SLIPS)[:10]
CHOICE = ("no-chance", "target-chance-alone", "draft-chance-alone", "quotient-turned-round", "tokens-after-a-refusal")
#: Only three at a time, because drafts on which more slips all give other tokens are rare.
DRAWS = tuple(DRAW[start : start + 3] for start in (0, 3, 6))
ENDS = ("nothing-more", "rest-of-the-last-row", "last-row-of-the-draft", "numbers-in-float64")


def cases(case):
    for at, (kept, k) in enumerate(((1, 4), (2, 5), (2, 4), (1, 2), (0, 3), (3, 5), (1, 3))):
        yield drafted(case, "a refusal", "{kept} of {k} tokens stay", kept, k, told=DRAWS[at % 3])
    yield drafted(case, "a refusal", "float32, {kept} of {k} tokens stay", 1, 5, dtype=np.float32, told=DRAWS[0])
    for told in (DRAW[:2], DRAW[-2:]):
        yield drafted(case, "a refusal", "{kept} of {k} tokens stay", 1, 4, told=told)
    for kept, k in ((1, 4), (2, 5)):
        for slug in CHOICE:
            yield drafted(case, "which tokens stay", "{kept} of {k} tokens stay", kept, k, told=(slug,))
    for slug in (*CHOICE[:3], "stays-where-refused"):
        yield drafted(case, "which tokens stay", "all of {k} tokens stay", 3, 3, told=(slug, ENDS[1]))
    for k, dtype, label in ((3, np.float64, ""), (2, np.float64, ""), (4, np.float32, "float32, ")):
        yield drafted(case, "all stay", label + "all of {k} tokens stay", k, k, dtype=dtype, told=ENDS)
    yield drafted(case, "edge cases", "the first of {k} tokens is refused", 0, 4, told=DRAWS[2])
    yield drafted(case, "edge cases", "the last of {k} tokens is refused", 3, 4, told=DRAWS[1])
    yield drafted(case, "edge cases", "a single token, which stays", 1, 1, told=ENDS[:3])
    yield drafted(case, "edge cases", "a single token, which is refused", 0, 1, told=DRAWS[0])
    yield drafted(case, "edge cases", "a generator from which others have drawn", 2, 4, used=True, told=DRAWS[1])
    yield drafted(case, "edge cases", "a long draft ({k} tokens), all but the last stay", 19, 20, sharp=0.15)
    yield drafted(case, "edge cases", "300 token ids", 1, 3, vocab=300, told=(DRAW[0], "a-little-for-all"))
    yield drafted(case, "edge cases", "two models that hardly agree", 0, 3, sharp=4.0, told=DRAW[2:3])
    yield the_same(case)
    yield certain(case)


EXERCISE = exercise(
    speculative_step,
    slipped=written,
    library="torch",
    credit={"a refusal": 0.35, "which tokens stay": 0.25, "all stay": 0.2, "edge cases": 0.2},
)
