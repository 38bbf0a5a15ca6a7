"""Every sentence of a finding: to reword one, change it here and nowhere else.

A key is the slug of a finding, or the slug, a slash and a word where one finding has several sentences. `{gaps}` are
filled in; a sentence may leave one out. No mark, no slug and no order of findings depends on a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..data import FIRST_SEEN, Certainty, Finding
from ..text import begun

TEMPLATES: dict[str, str] = {
    # ---------------------------------------------------------------------------------------------- what kind of result
    "returns-none": "The function returns None. Is there a `return` at the end?",
    "returns-input": "The function returns one of its inputs as it came.",
    "swapped-results": "The results come in the wrong order. The docstring asks for {results}.",
    "list-for-tuple": "The function returns a list. Return a tuple: `return first, second`.",
    "wrong-number-of-results": "The function must return a tuple of {results}.",
    "wrong-number-of-results/nested": "The function must return {form}.",
    "wrong-type": "The function returns {value}: another type than the docstring says.",
    "wrong-dtype": "The result has the wrong dtype: {problem}.",
    "dtype-changed": "The floating dtype of the inputs must be kept: {problem}.",
    "dtype-lost": "The result is less precise than the inputs. Where is float32 forced on it?",
    "materialises": "The numbers are right, but {problem}.",
    "warns": "The numbers are right, but NumPy warns while your function runs, and the docstring asks for no warnings.",
    "nan": "The result holds NaN or infinity in the case “{case}”: where does it come from?",
    "wrong-signature": "The function does not take the arguments that its docstring names.",
    "no-error": "The docstring asks for a {error}. Test for it first, and raise it yourself.",
    # -------------------------------------------------------------------------- lists; {result} is the name of the list
    "one-alone": "{result}: you name one at most, where several are expected. What happens to the others?",
    "some-missing": "{result}: all that you name are right, but others are missing. Where do they get lost?",
    "too-many": "{result}: you name all that are expected, and more. What lets these through?",
    "list-order": "{result}: the entries are right, but their order is wrong.",
    "stops-too-early": "{result}: all entries are right, but the list stops too early: it is {count} short.",
    "stops-too-early/unevenly": (
        "{result}: all entries are right, but the list stops too early, in some cases earlier than in others."
    ),
    "goes-on": (
        "{result}: the list begins with the right one and then goes on: it is {count} too long. What should end it?"
    ),
    "goes-on/unevenly": (
        "{result}: the list begins with the right one and then goes on, in some cases further than in others. What "
        "should end it?"
    ),
    "ends-elsewhere": (
        "{result}: all entries are right, but the list stops too early in some cases and too late in others."
    ),
    "entries-differ": (
        "{result}: an entry is wrong, at the earliest at place {place} (counted from 0). How do you choose it? Where "
        "the list ends follows from that."
    ),
    "last-entry-wrong": "{result}: all entries but the last one are right. What should come last, and when?",
    # -------------------------------------------------------------------------------------------- which cases are wrong
    "fails": "Ordinary cases are right. What fails is {cases}.",
    "fails/criterion": "What is asked under “{criterion}” is right. What fails is {cases}.",
    "fails/raises": "It raises {failure} there.",
    "fails/answers": "It answers {answer} there.",
    "not-general": "Some cases of “{criterion}” are right, others not: {cases}. What sets them apart?",
    "wrong-names": "Wrong is: {cases}.",
    "single-batch-only": (
        "Right for a single sequence (B = 1), wrong for a batch: what does your code do that is right for one sequence "
        "only?"
    ),
    # One of {cases}, and the same where a name was asked for.
    "case": "“{case}”",
    "case/answered": "“{case}” (it answers “{answer}”)",
    # ---------------------------------------------------------------------------------------------------------- numbers
    "through-a-float": (
        "Only the last digits of a very large count are wrong: your code makes it a float, which holds whole numbers "
        "up to 2**53. A division by `/`, a power of `math` or a mean does that."
    ),
    "off-by-factor": "The result is {factor} times what it should be.",
    "off-by-factor/size": ("The result is {factor} times too large: is a size used or left out once too often?"),
    "off-by-factor/number": "The result is {factor} times what it should be, in every case.",
    "wrong-sign": "The result has the wrong sign everywhere.",
    "softmax-over-queries": "The columns of the weights sum to 1, not the rows.",
    "rows-not-normalised": "The rows of the weights do not sum to 1.",
    "rows-shifted": "Each row is right up to one number added to all of its entries.",
    "rows-off-by-factor": "Each row is right up to a factor of its own: by what are rows multiplied or divided?",
    "imprecise": (
        "Close, but less exact than the inputs allow: does your code add an epsilon, round, take a quotient of "
        "differences or use float32?"
    ),
    "measured-on-draws": (
        "Close, now above and now below: is it measured on random draws? Each of them gives other numbers. Work it out "
        "on paper, and calculate it from the arguments."
    ),
    "transposed": "The result is transposed: rows and columns have changed places.",
    "transposed/one": "{result} is transposed: rows and columns have changed places.",
    "permuted": "The entries are right, but they are in the wrong order along {size}.",
    "permuted/axis": "The entries are right, but they are in the wrong order along axis {axis} of the result.",
    "read-in-another-order": "The entries are read in the order ({there}) instead of ({due}): a reshape swaps no axes.",
    "masked-rows": (
        "Right except in rows where nothing may be attended to. These should be 0 and are not: a softmax spreads its "
        "weights even where every key is hidden. What takes them to 0?"
    ),
    "masked-rows/nan": (
        "Right except in rows where nothing may be attended to: the result holds NaN there instead of 0."
    ),
    "zero-rows": "Right except in rows that should be 0 throughout: what does your code put there?",
    "entries-missing": "Some entries are right and the others are 0: what leaves them out?",
    "constant": "The function gives the same number in every case that is asked.",
    "keeps-state": (
        "Later calls get what an earlier call returned. Does the function keep something from call to call?"
    ),
    # ---------------------------------------------------------------------------- several results: which are wrong, how
    "results/right": "{results}: right.",
    "results/wrong": "{results}: wrong.",
    "results/both": "{right}: right. {wrong}: not.",
    # {sentence}: one of those above, with a small first letter.
    "results/how": "{results}: {sentence}",
    # -------------------------------------------------------------------------------------------------------- gradients
    "detached": (
        "The values are right, but gradients do not flow: something in your code leaves the graph, such as "
        "`.detach()`, `.item()`, `.numpy()`, `.data`, `torch.no_grad()`, `torch.tensor(…)` or `nn.Parameter(…)`."
    ),
    "nan-gradient": (
        "The values are right, but the gradient holds NaN. If NaN or an infinite slope arises and is replaced later, "
        "it comes back in the backward pass: let none arise."
    ),
    "gradient-raises": "The values are right, but it fails where an input asks for a gradient.",
    "gradient-wrong": (
        "The values are right where they are compared, the gradients are not: is a part of the way out of the graph, "
        "or is another way taken there?"
    ),
    # ----------------------------------------------------------------------------- shapes; {axis} is one of those below
    "wrong-shape": "The shape of {result} is {there} instead of {due}.",
    "wrong-shape/numbers-right": (
        "The numbers are right, the shape is not. The shape of {result} is {there} instead of {due}. Is there an axis "
        "too many or too few?"
    ),
    # One of these comes after the first.
    "wrong-shape/look": "Write down the shape of every step next to the code.",
    "wrong-shape/like": "That is the shape of `{name}`.",
    "wrong-shape/one-number": "A single number came back: which step drops the axes?",
    "wrong-shape/lost": "{axis} got lost.",
    "wrong-shape/joined": "{axis}: joined with {other} instead of {due}.",
    "wrong-shape/summed": "It is summed over {axis}.",
    "wrong-shape/averaged": "It is averaged over {axis}.",
    "wrong-shape/first": "Only the first entry of {axis} is there.",
    "wrong-shape/last": "Only the last entry of {axis} is there.",
    "wrong-shape/largest": "Only the largest entry of {axis} is there.",
    "axis": "the axis {size}",
    "axis/batch": "the batch ({size})",
    "axis/heads": "the heads ({size})",
    "axis/key-value-heads": "the key/value heads ({size})",
    # What {there} or {due} is where there are no axes.
    "shape/number": "that of a single number",
    # --------------------------------------------------------------------------------- what an exception says of shapes
    # {in_line} is "in line 3 ", or nothing: then the words after it begin with a capital letter.
    "in-line": "in line {line} ",
    "shapes-do-not-fit": "Two arrays do not fit together. Write the shape of each array next to the line that fails.",
    "shapes-do-not-fit/named": (
        "{in_line}an axis of {one} meets one of {other}. Write the shape of each array next to the line that fails."
    ),
    "view-of-strided": (
        "`view` fails where entries do not lie in order in memory: after a transpose, in a part of a larger tensor, in "
        "a clone of either. `reshape` copies where it must; what is written into a copy stays there."
    ),
    "index-out-of-range": (
        "{in_line}an index goes past the end of an axis: what is counted there, and what is that axis?"
    ),
    "index-out-of-range/size": (
        "{in_line}an index goes past the end of an axis of {size}: what is counted there, and what is that axis?"
    ),
    "index-out-of-range/list": (
        "{in_line}an index goes past the end of a list: can the list be empty, or shorter than your code expects?"
    ),
    "index-out-of-range/unknown": "{in_line}an index goes past the end: is one size taken for another?",
    # {axes} is one of the next two.
    "number-of-axes": (
        "{in_line}your code expects an array with {axes}, and it has {there}. Which axes does the docstring allow?"
    ),
    "number-of-axes/one": "{count} axis",
    "number-of-axes/several": "{count} axes",
    "number-of-axes/no-such": (
        "{in_line}your code uses axis {axis} of an array that has {axes}. Which axes does the docstring allow?"
    ),
    "number-of-axes/indices": (
        "{in_line}an array that has {axes} gets more indices than that. Which axes does the docstring allow?"
    ),
    "number-of-axes/parts": (
        "{in_line}your code unpacks into {due} names something that has {there} parts: a shape has as many parts as "
        "there are axes."
    ),
    "number-of-axes/more-parts": (
        "{in_line}your code unpacks into {due} names something that has more parts: a shape has as many parts as there "
        "are axes."
    ),
    "number-of-axes/unknown": (
        "{in_line}an array has more or fewer axes than your code expects. Write the shape of each array next to the "
        "line that fails."
    ),
    "does-not-reshape": (
        "{in_line}the shape {due} has room for more entries than the array has, or for fewer: is each of these sizes "
        "what it should be?"
    ),
    "does-not-reshape/entries": (
        "{in_line}an array of {entries} entries cannot take the shape {due}, which has room for more or for fewer: is "
        "each of these sizes what it should be?"
    ),
    "does-not-reshape/unknown": (
        "{in_line}an array has too many or too few entries for its new shape. Write the shape of each array next to "
        "the line that fails."
    ),
    # ------------------------------------------------------- functions and generators that are handed in, called {name}
    "experiment": "In the case “{case}”: {experiment}",
    "never-calls": "Your function never calls `{name}`.",
    "calls-too-often": "`{name}` answers {allowed} in the case “{case}”, and your function calls it once more.",
    "generator-unused": "Your function never draws from `{name}`.",
    "generator-unused/case": "In the case “{case}” your function does not draw from `{name}`.",
    "generator-unused/wrong": "In the cases that fail your function does not draw from `{name}`.",
    # ---------------------------------------------------- known mistakes; what is said of each stands with the exercise
    "known/either": "{advice} Or, which would answer the same: {other}",
    "known/ordinary-as-if": "On ordinary inputs it answers as if {change}.",
    "known/ordinary": "On ordinary inputs it answers like this: {advice}",
    # ---------------------------------------------------------------------- where wrong values begin; {step} is as here
    "step": "{code} in line {line}",
    "overflow": "In the case “{case}” {step} becomes infinite.",
    "overflow/division": "In the case “{case}” {step} becomes infinite, where {divisor} has become 0.",
    "overflow/float64": (
        "In the case “{case}” {step} becomes infinite: what goes in there reaches {most}, and no float64 holds the "
        "exponential of 710."
    ),
    "overflow/float32": (
        "In the case “{case}” {step} becomes infinite: what goes in there reaches {most}, and no float32 holds the "
        "exponential of 89."
    ),
    "nan/step": "In the case “{case}” NaN comes from {step}.",
    "nan/division": "In the case “{case}” NaN comes from {step}, where {divisor} has become 0.",
    "first/shape": "The first of this shape is {step}.",
    "first/dtype": "The first of this dtype is {step}.",
    "raises": "Your code raises an error in line {line}, where {condition} holds, but none is expected there.",
    "own-index-wraps": "In the case “{case}” {index} is {value} in the index of {step}: that counts from the end.",
    "own-index-wraps/zero": (
        "In the case “{case}” {index} is 0 in the index of {step}: it counts from the front then."
    ),
    # --------------------------------------------------------------- changes; the words for each: `operators/words.py`
    "as-if": "It answers as if {change}.",
    "as-if/right": "{results}: right.",
    "as-if/result": "{result}: as if {change}.",
    "own": "In line {line}, {change}. Fix only that, and every hidden case is right.",
    "own/open": "One change makes every hidden case right. In line {line}, {change}.",
    "own/either": (
        "Either of two changes makes every hidden case right. In line {line}, {change}. Or else, in line {other_line}, "
        "{other_change}."
    ),
    # ------------------------------------------------------------------------------------------------- around a finding
    "ended/timeout": "It timed out.",
    "ended/crashed": "Its process died.",
    "ended/memory": "What it returned takes more memory to compare than there is.",
    "raised": "It raises {failure}.",
    # The report leaves out what comes after these words.
    "seen": FIRST_SEEN + " “{case}”: {problem}.",
    "seen/raised": FIRST_SEEN + " “{case}”.",
    "seen/also": "In the case “{case}” {problem}.",
    "passed": "Passed: {criteria}.",
    "passed/one": "{criterion} {passed}/{total}",
}


def say(key: str, /, **fields: Any) -> str:
    """Fill in the sentence of this key."""
    return TEMPLATES[key].format(**fields)


def begin(names: Sequence[str]) -> str:
    """The names of results at the beginning of a sentence: q is not Q."""
    words = " and ".join(names)
    return words if len(words.split()[0]) == 1 else begun(words)


def named(key: str, /, certainty: Certainty = Certainty.RELATION, **fields: Any) -> Finding:
    """Name the mistake of this key, whose slug stands before the slash, and say its sentence."""
    return Finding(key.partition("/")[0], say(key, **fields), certainty)
