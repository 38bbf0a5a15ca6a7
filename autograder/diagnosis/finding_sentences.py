"""Holds every sentence of a finding: to reword one, change it only here.

A key is the slug of a finding, followed by a slash and a word if the finding has several sentences. `{gaps}` are filled
in; a sentence may leave one out. No mark, no slug and no order of findings depends on a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..records import FIRST_SEEN, Certainty, Finding
from ..safe_text import begun, listed, spoken, verb

TEMPLATES: dict[str, str] = {
    # ---------------------------------------------------------------------------------------------- what kind of result
    "returns-none": "Your function returns None. Is there a `return` at the end?",
    "returns-input": "Your function returns one of its inputs unchanged.",
    "swapped-results": "Your results are in the wrong order. The docstring asks for {results}.",
    "list-for-tuple": "Your function returns a list. Return a tuple, as in `return first, second`.",
    "wrong-number-of-results": "Your function must return a tuple of {results}.",
    "wrong-number-of-results/nested": "Your function must return {form}.",
    "wrong-type": "Your function returns {value}, but the docstring asks for another type.",
    "wrong-dtype": "{problem}.",
    "dtype-changed": "{problem}. Your function should keep the dtype of its inputs.",
    "dtype-lost": "Your result is less precise than the inputs. Where does your code convert it to float32?",
    "materialises": "Your numbers are right, but {problem}.",
    "warns": "Your numbers are right, but NumPy prints a warning while your function runs. Avoid what causes it.",
    "nan": "In the case “{case}”, your code produces NaN or infinity. Which step does?",
    "wrong-signature": "Your function doesn't take the arguments that its docstring names.",
    "no-error": (
        "Your function should raise a {error} where the docstring says so. Check for that first, and raise it yourself."
    ),
    # -------------------------------------------------------------------------- lists; {result} is the name of the list
    "one-alone": "You put at most one entry in {result}, but some cases have several. What happens to the others?",
    "some-missing": "All entries that you put in {result} are right, but others are missing. Where do you lose them?",
    "too-many": "You put all the right entries in {result}, but also some wrong ones. What lets these through?",
    "list-order": "You return the right entries of {result}, but in the wrong order.",
    "stops-too-early": "The entries of {result} are right, but you stop {count} too early.",
    "stops-too-early/unevenly": (
        "The entries of {result} are right, but you stop too early, in some cases earlier than in others."
    ),
    "goes-on": "The first entries of {result} are right, but then you add {count} too many. What should make you stop?",
    "goes-on/unevenly": (
        "The first entries of {result} are right, but then you add too many, in some cases more than in others. What "
        "should make you stop?"
    ),
    "ends-elsewhere": "The entries of {result} are right, but you stop too early in some cases and too late in others.",
    "entries-differ": (
        "You choose a wrong entry of {result}, in one case already at index {place}. Fix that first, because where you "
        "stop follows from what you choose."
    ),
    "last-entry-wrong": "Only the last entry of {result} is wrong. What should come last, and when?",
    # ------------------------------------------------------------ which cases are wrong; {cases}: the case “a” fails
    "fails": "Your function passes the ordinary cases, but fails in {cases}.",
    "fails/criterion": "Your function passes all “{criterion}” cases, but fails in {cases}.",
    "fails/raises": "It raises {failure} there.",
    "fails/answers": "It returns {answer} there.",
    "not-general": (
        "Your function passes some of the “{criterion}” cases, but fails in {cases}. What is different about them?"
    ),
    "wrong-names": "Your function returns the wrong {result} in {cases}.",
    "single-batch-only": (
        "Your function is right for a single sequence (B = 1) but wrong for a batch. Which of your steps works for one "
        "sequence only?"
    ),
    # {labels} is one or several of "case"; "case/answered" is for a wrong name. "cases/some" is for an incomplete list.
    "cases/one": "the case {labels}",
    "cases/several": "the cases {labels}",
    "cases/some": "{count} cases, among them {labels}",
    "case": "“{case}”",
    "case/answered": "“{case}” (you return “{answer}”)",
    # ---------------------------------------------------------------------------------------------------------- numbers
    "through-a-float": (
        "Only the last digits of a very large count are wrong, because your code turns it into a float, which "
        "can't hold "
        "every whole number above 2**53. A division by `/`, a function of `math` or a mean does that."
    ),
    "off-by-factor": "Your result is {factor} times as large as it should be.",
    "off-by-factor/size": (
        "Your result is {factor} times as large as it should be. Which size do you use once too often, or not often "
        "enough?"
    ),
    "off-by-factor/number": "Your result is {factor} times as large as it should be, whatever the inputs are.",
    "wrong-sign": "Your result has the wrong sign everywhere.",
    "softmax-over-queries": "The columns of your weights sum to 1, but their rows should.",
    "rows-not-normalised": "The rows of your weights do not sum to 1.",
    "rows-shifted": "Each row of your result is shifted, because the same number is added to all of its entries.",
    "rows-off-by-factor": (
        "Within each row of your result, all entries are off by the same factor, which may differ from row to row. "
        "What do you multiply or divide each row by?"
    ),
    "imprecise": (
        "Your result is close, but less exact than it should be. Does your code add an epsilon, round, use float32, or "
        "approximate a derivative by differences?"
    ),
    "measured-on-draws": (
        "Your result is close, but too large in some cases and too small in others. Do you measure it on random draws? "
        "Derive a formula instead and use it."
    ),
    "transposed": "Rows and columns are swapped in your result.",
    "transposed/one": "Rows and columns are swapped in {result}.",
    "permuted": "Your result has the right entries, but in the wrong order along the axis of length {size}.",
    "permuted/axis": "Your result has the right entries, but in the wrong order along axis {axis}.",
    "read-in-another-order": (
        "Your result has the right shape, but its entries are in the order ({there}) instead of ({due}). A reshape "
        "doesn't swap axes; a transpose does."
    ),
    "masked-rows": (
        "Your result is right except in rows where every key is hidden. These rows should be 0, but a softmax still "
        "gives them weights. Where do you set them to 0?"
    ),
    "masked-rows/nan": (
        "Your result is right except in rows where every key is hidden. These contain NaN, but should be 0."
    ),
    "zero-rows": "Your result is right except in rows that should be all 0. What does your code put there?",
    "entries-missing": "Some of your entries are right, but the others are 0. Why does your code never fill these in?",
    "constant": "Your function returns the same number in every case.",
    "keeps-state": (
        "Your function returns in later calls what it returned in an earlier one. Does it keep something between calls?"
    ),
    # ------------------------------------- several results: which are wrong and how; {are} agrees with their number
    "results/right": "Of your results, {results} {are} right.",
    "results/wrong": "Of your results, {results} {are} wrong.",
    "results/both": "Of your results, {results} {are} right, but {wrong} {are_wrong} not.",
    # {sentence}: one of those above, with a lower-case first letter.
    "results/how": "In {results}, {sentence}",
    # -------------------------------------------------------------------------------------------------------- gradients
    # {lost}: "no gradient reaches `Q`". {steps}: pieces of the student's code with their lines.
    "detached": (
        "Your values are right, but {lost}, because something in your code leaves the graph, such as `.detach()`, "
        "`.item()`, `.numpy()`, `.data`, `torch.no_grad()`, `torch.tensor(…)` or `nn.Parameter(…)`."
    ),
    "detached/one": "Your values are right, but {lost}. {steps} takes values out of the graph.",
    "detached/several": "Your values are right, but {lost}. {steps} take values out of the graph.",
    "detached/lost": "no gradient flows back",
    "nan-gradient": (
        "Your values are right, but the gradient contains NaN. Replacing a NaN or an infinity afterwards doesn't help, "
        "because the backward pass still goes through the step that made it. Avoid creating it."
    ),
    "gradient-raises": "Your values are right, but your function raises an error when an input requires a gradient.",
    "gradient-wrong": (
        "Your values are right, but your gradients are wrong. Does part of your code leave the graph, or do you "
        "replace some values with others that have no gradient?"
    ),
    # ----------------------------------------------------------------------------- shapes; {axis} is one of those below
    "wrong-shape": "The shape of {result} is {there} instead of {due}.",
    "wrong-shape/numbers-right": (
        "Your numbers are right, but the shape of {result} is {there} instead of {due}. Do you have an axis too "
        "many or "
        "too few?"
    ),
    # One of these follows "wrong-shape".
    "wrong-shape/look": "Write down the shape of every step next to the code.",
    "wrong-shape/like": "That is the shape of {name}.",
    "wrong-shape/one-number": "Which step of your code drops the axes?",
    "wrong-shape/lost": "You lose {axis}.",
    "wrong-shape/joined": "You join {axis} with {other}, but should join {axis} with {due}.",
    "wrong-shape/summed": "You sum over {axis}.",
    "wrong-shape/averaged": "You average over {axis}.",
    "wrong-shape/first": "You return only the first entry of {axis}.",
    "wrong-shape/last": "You return only the last entry of {axis}.",
    "wrong-shape/largest": "You return only the largest entry of {axis}.",
    "axis": "the axis {size}",
    "axis/batch": "the batch ({size})",
    "axis/heads": "the heads ({size})",
    "axis/key-value-heads": "the key/value heads ({size})",
    # {there} or {due} if there are no axes.
    "shape/number": "that of a single number",
    # --------------------------------------------------------- exceptions about shapes; {at} is " (line 3)" or nothing
    "at-line": " (line {line})",
    "shapes-do-not-fit": (
        "Your code combines two arrays whose shapes don't fit. Write the shape of each array next to the line that "
        "fails."
    ),
    "shapes-do-not-fit/named": (
        "Your code combines an axis of length {one} with an axis of length {other}{at}. Write the shape of each array "
        "next to the line that fails."
    ),
    "view-of-strided": (
        "You use `view` on a tensor whose entries are not in order in memory, as after a transpose or in a part of "
        "a larger "
        "tensor. `reshape` copies them if it must, but then writing into the copy doesn't change the original."
    ),
    "index-out-of-range": (
        "Your index goes past the end of an axis{at}. What does the index count, and what does the axis hold?"
    ),
    "index-out-of-range/size": (
        "Your index goes past the end of an axis of length {size}{at}. What does the index count, and what does "
        "the axis "
        "hold?"
    ),
    "index-out-of-range/list": (
        "Your index goes past the end of a list{at}. Can the list be empty, or shorter than your code expects?"
    ),
    "index-out-of-range/unknown": "Your index goes past the end{at}. Do you confuse two sizes?",
    # {axes} is one of the next two.
    "number-of-axes": (
        "Your code expects an array with {axes}, but it has {there}{at}. Which axes does the docstring allow?"
    ),
    "number-of-axes/one": "{count} axis",
    "number-of-axes/several": "{count} axes",
    "number-of-axes/no-such": (
        "Your code uses axis {axis} of an array that has {axes}{at}. Which axes does the docstring allow?"
    ),
    "number-of-axes/indices": (
        "Your code uses more indices than an array has axes: it has {axes}{at}. Which axes does the docstring allow?"
    ),
    "number-of-axes/parts": ("Your code unpacks {there} into {due} names{at}. A shape has one value for each axis."),
    "number-of-axes/more-parts": (
        "Your code unpacks too many values into {due} names{at}. A shape has one value for each axis."
    ),
    "number-of-axes/unknown": (
        "Your code expects an array with more or fewer axes than it has{at}. Write the shape of each array next to "
        "the line "
        "that fails."
    ),
    "does-not-reshape": (
        "Your array doesn't have as many entries as the shape {due} needs{at}. Which of these sizes is wrong?"
    ),
    "does-not-reshape/entries": (
        "Your array of {entries} entries can't be reshaped to {due}{at}. Which of these sizes is wrong?"
    ),
    "does-not-reshape/unknown": (
        "Your array has too many or too few entries for its new shape{at}. Write the shape of each array next to the "
        "line that fails."
    ),
    # ------------------------------------------------------ functions and generators that you are given, called {name}
    "experiment": "In the case “{case}”, {experiment}",
    "never-calls": "Your function never calls `{name}`.",
    "calls-too-often": (
        "In the case “{case}”, your function calls `{name}` once too often, because it may make only {allowed}."
    ),
    "generator-unused": "Your function never draws from `{name}`.",
    "generator-unused/case": "In the case “{case}”, your function doesn't draw from `{name}`.",
    "generator-unused/wrong": "In the cases that fail, your function doesn't draw from `{name}`.",
    # ----------------------------------------------------------- known mistakes; the exercise holds the advice for each
    "known/either": "Your results fit two different mistakes. The first: {advice} The second: {other}",
    "known/ordinary-as-if": "Judging by its results on ordinary inputs, your code {change}.",
    "known/ordinary": "{advice} This explains your results on ordinary inputs.",
    # ------------------------------------------------------------- where wrong values begin; {step} is "step" filled in
    "step": "{code} (line {line})",
    "overflow": "{step} becomes infinite in the case “{case}”.",
    "overflow/division": (
        "{step} becomes infinite in the case “{case}”, because you divide by {divisor}, which {holds}."
    ),
    "overflow/float64": (
        "{step} becomes infinite in the case “{case}”, because you take the exponential of {most}. For float64, "
        "that of "
        "710 is already too large."
    ),
    "overflow/float32": (
        "{step} becomes infinite in the case “{case}”, because you take the exponential of {most}. For float32, "
        "that of "
        "89 is already too large."
    ),
    "nan/step": "{step} is the first step of your code that gives NaN in the case “{case}”.",
    "nan/division": "{step} gives NaN in the case “{case}”, because you divide by {divisor}, which {holds}.",
    # {holds} is one of these; {place} is "there" or "in float16".
    "division/number": "is 0 {place}",
    "division/entries": "contains a 0 {place}",
    "first/shape": "The first step of your code that gives this shape is {step}.",
    "first/dtype": "The first step of your code whose result has dtype {dtype} is {step}.",
    "raises": "Your code raises an error (line {line}) because {condition} is true, but these inputs are valid.",
    "own-index-wraps": (
        "Your index {index} in {step} is {value} in the case “{case}”, and a negative index counts from the end."
    ),
    "own-index-wraps/zero": (
        "Your index {index} in {step} is 0 in the case “{case}”, so it counts from the front, not from the end."
    ),
    # ---------------------------------------------------------- changes; `operators/change_descriptions.py` words them
    "as-if": "Judging by its results, your code {change}.",
    "as-if/results": "Judging by {results}, your code {change}.",
    "own": "{change}. Fix only that and every hidden test passes.",
    "own/open": "{change}. One change there makes every hidden test pass.",
    # The same change at two places, or at several.
    "own/two": "{change}. Fix both and every hidden test passes.",
    "own/several": "{change}. Fix all of these and every hidden test passes.",
    # {change} and {other} begin with lower-case letters.
    "own/either": "Either {change}, or {other}. Fix one of the two and every hidden test passes.",
    # ------------------------------------------------------------------------------------------------- around a finding
    "ended/timeout": "Your function timed out.",
    "ended/crashed": "Your function crashed its Python process.",
    "ended/memory": "Your function returned so much that there is not enough memory to compare it.",
    "raised": "Your function raises {failure}.",
    # After a finding that explains why it raises.
    "raised/gradient": "When an input requires a gradient, it therefore raises {failure}.",
    # The report leaves out everything from these words on.
    "seen": FIRST_SEEN + " “{case}”: {problem}.",
    "seen/case": FIRST_SEEN + " “{case}”.",
    # These follow a message that ends in this case, names no other, or names several with this one first.
    "seen/there": "There, {problem}.",
    "seen/that": "In that case, {problem}.",
    "seen/first": "In the first of these cases, {problem}.",
    "seen/case-again": "In the case “{case}”, {problem}.",
    # A later case that ends in an exception.
    "seen/also": "In the case “{case}”, {problem}.",
}


def say(key: str, /, **fields: Any) -> str:
    """Fill in the sentence of this key."""
    return TEMPLATES[key].format(**fields)


def of_results(key: str, names: Sequence[str], **fields: Any) -> str:
    """Fill in a sentence with the names of results."""
    words = listed([spoken(name) for name in names])
    many = len(names) > 1
    begins = TEMPLATES[key].startswith("{results}")
    return say(key, results=begun(words) if begins else words, are=verb(words, "is", "are", many), **fields)


def named(key: str, /, certainty: Certainty = Certainty.RELATION, **fields: Any) -> Finding:
    """Return the finding of this key: its slug is the part before the slash, its text the filled-in sentence."""
    return Finding(key.partition("/")[0], say(key, **fields), certainty)
