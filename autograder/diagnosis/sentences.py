"""Every sentence of a finding: to reword one, change it here and nowhere else.

A key is the slug of a finding, or the slug, a slash and a word where one finding has several sentences. `{gaps}` are
filled in; a sentence may leave one out. No mark, no slug and no order of findings depends on a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..data import FIRST_SEEN, Certainty, Finding
from ..text import begun, listed, spoken, verb

TEMPLATES: dict[str, str] = {
    # ---------------------------------------------------------------------------------------------- what kind of result
    "returns-none": "Your function returns None. Is there a `return` at the end?",
    "returns-input": "Your function returns one of its inputs unchanged.",
    "swapped-results": "Your results are in the wrong order. The docstring asks for {results}.",
    "list-for-tuple": "Your function returns a list. Return a tuple, as in `return first, second`.",
    "wrong-number-of-results": "Your function must return a tuple of {results}.",
    "wrong-number-of-results/nested": "Your function must return {form}.",
    "wrong-type": "Your function returns {value}, which is another type than the docstring says.",
    "wrong-dtype": "{problem}.",
    "dtype-changed": "{problem}. Keep the floating dtype of the inputs.",
    "dtype-lost": "Your result is less precise than the inputs. Where do you force float32 on it?",
    "materialises": "The numbers are right, but {problem}.",
    "warns": "The numbers are right, but NumPy warns while your function runs. The docstring asks for no warnings.",
    "nan": "Your result holds NaN or infinity in the case “{case}”. Where does it come from?",
    "wrong-signature": "Your function doesn't take the arguments that its docstring names.",
    "no-error": "The docstring asks for a {error}. Test for it first, and raise it yourself.",
    # -------------------------------------------------------------------------- lists; {result} is the name of the list
    "one-alone": "In {result} you name at most one, but several are expected. What happens to the others?",
    "some-missing": "All that you name in {result} are right, but others are missing. Where do they get lost?",
    "too-many": "In {result} you name all that are expected and some more. What lets these through?",
    "list-order": "The entries of {result} are right, but their order is wrong.",
    "stops-too-early": "The entries of {result} are right, but you stop {count} too early.",
    "stops-too-early/unevenly": (
        "The entries of {result} are right, but you stop too early, in some cases earlier than in others."
    ),
    "goes-on": "The first entries of {result} are right, but then you go on for {count} too many. What should end it?",
    "goes-on/unevenly": (
        "The first entries of {result} are right, but then you go on, in some cases further than in others. What "
        "should end it?"
    ),
    "ends-elsewhere": "The entries of {result} are right, but you stop too early in some cases and too late in others.",
    "entries-differ": (
        "An entry of {result} is wrong, in one case as early as at index {place} (counted from 0). How do you choose "
        "it? Where you stop follows from that."
    ),
    "last-entry-wrong": "Only the last entry of {result} is wrong. What should come last, and when?",
    # ------------------------------------------------------------ which cases are wrong; {cases}: the case “a” fails
    "fails": "Ordinary cases pass, but {cases}.",
    "fails/criterion": "All cases of “{criterion}” pass, but {cases}.",
    "fails/raises": "There your function raises {failure}.",
    "fails/answers": "There your function returns {answer}.",
    "not-general": "Some cases of “{criterion}” pass, but {cases}. What sets them apart?",
    "wrong-names": "You name the wrong one: {cases}.",
    "single-batch-only": (
        "Your function is right for a single sequence (B = 1) and wrong for a batch. Which step is right for one "
        "sequence only?"
    ),
    # {labels} is one of {case}, or several; {case} where a name was expected, and one came back that is wrong.
    "cases/one": "the case {labels} fails",
    "cases/several": "the cases {labels} fail",
    "case": "“{case}”",
    "case/answered": "“{case}” (you answer “{answer}”)",
    # ---------------------------------------------------------------------------------------------------------- numbers
    "through-a-float": (
        "Only the last digits of a very large count are wrong, because your code makes it a float, which holds whole "
        "numbers up to 2**53. A division by `/`, a power of `math` or a mean does that."
    ),
    "off-by-factor": "Your result is {factor} times what it should be.",
    "off-by-factor/size": "Your result is {factor} times too large. Do you use or leave out a size once too often?",
    "off-by-factor/number": "Your result is {factor} times what it should be, in every case.",
    "wrong-sign": "Your result has the wrong sign everywhere.",
    "softmax-over-queries": "The columns of your weights sum to 1, but the rows should.",
    "rows-not-normalised": "The rows of your weights do not sum to 1.",
    "rows-shifted": "Each row is right up to one number that is added to all of its entries.",
    "rows-off-by-factor": "Each row is right up to a factor of its own. By what do you multiply or divide rows?",
    "imprecise": (
        "Your result is close, but less exact than the inputs allow. Does your code add an epsilon, round, use "
        "float32, or take a quotient of differences for a derivative?"
    ),
    "measured-on-draws": (
        "Your result is close, but too large in some cases and too small in others. Do you measure it on random draws? "
        "Derive a formula instead, and compute the result from the arguments."
    ),
    "transposed": "Rows and columns are swapped in your result.",
    "transposed/one": "Rows and columns are swapped in {result}.",
    "permuted": "The entries are right, but their order along {size} is wrong.",
    "permuted/axis": "The entries are right, but their order along axis {axis} of the result is wrong.",
    "read-in-another-order": (
        "Your result has the right shape, but its entries are in the order ({there}) instead of ({due}). A reshape "
        "doesn't swap axes; a transpose does."
    ),
    "masked-rows": (
        "Your result is right except in rows where nothing may be attended to. These should be 0, but a softmax "
        "spreads its weights even where every key is hidden. What sets them to 0?"
    ),
    "masked-rows/nan": (
        "Your result is right except in rows where nothing may be attended to, which hold NaN instead of 0."
    ),
    "zero-rows": "Your result is right except in rows that should be all 0. What does your code put there?",
    "entries-missing": "Some entries are right and the others are 0. What leaves them out?",
    "constant": "Your function returns the same number in every case.",
    "keeps-state": (
        "Later calls return what an earlier call returned. Does your function keep something from call to call?"
    ),
    # -------------------------------- several results: which are wrong, how; {are}, {match}: as their number has it
    "results/right": "{results} {are} right.",
    "results/wrong": "{results} {are} wrong.",
    "results/both": "{results} {are} right, but not {wrong}.",
    # {sentence}: one of those above, with a small first letter.
    "results/how": "Of {results} this holds: {sentence}",
    # -------------------------------------------------------------------------------------------------------- gradients
    "detached": (
        "The values are right, but gradients do not flow, because something in your code leaves the graph, such as "
        "`.detach()`, `.item()`, `.numpy()`, `.data`, `torch.no_grad()`, `torch.tensor(…)` or `nn.Parameter(…)`."
    ),
    "nan-gradient": (
        "The values are right, but the gradient holds NaN. Replacing a NaN or an infinite slope afterwards doesn't "
        "help, because the backward pass meets it once more. Avoid creating it."
    ),
    "gradient-raises": "The values are right, but your function fails where an input requires a gradient.",
    "gradient-wrong": (
        "Your values are right, but your gradients are wrong. Does part of your code leave the graph, or does a "
        "special case replace values without their gradient?"
    ),
    # ----------------------------------------------------------------------------- shapes; {axis} is one of those below
    "wrong-shape": "The shape of {result} is {there} instead of {due}.",
    "wrong-shape/numbers-right": (
        "The numbers are right, but the shape of {result} is {there} instead of {due}. Is there an axis too many or "
        "too few?"
    ),
    # One of these comes after the first.
    "wrong-shape/look": "Write down the shape of every step next to the code.",
    "wrong-shape/like": "That is the shape of {name}.",
    "wrong-shape/one-number": "Your function returns a single number. Which step drops the axes?",
    "wrong-shape/lost": "You lose {axis}.",
    "wrong-shape/joined": "You join {axis} with {other} instead of {due}.",
    "wrong-shape/summed": "You sum over {axis}.",
    "wrong-shape/averaged": "You average over {axis}.",
    "wrong-shape/first": "You return only the first entry of {axis}.",
    "wrong-shape/last": "You return only the last entry of {axis}.",
    "wrong-shape/largest": "You return only the largest entry of {axis}.",
    "axis": "the axis {size}",
    "axis/batch": "the batch ({size})",
    "axis/heads": "the heads ({size})",
    "axis/key-value-heads": "the key/value heads ({size})",
    # What {there} or {due} is where there are no axes.
    "shape/number": "that of a single number",
    # ------------------------------------------------- what an exception says of shapes; {at}: " (line 3)", or nothing
    "at-line": " (line {line})",
    "shapes-do-not-fit": "Two arrays don't fit together. Write the shape of each array next to the line that fails.",
    "shapes-do-not-fit/named": (
        "An axis of length {one} meets one of length {other}{at}. Write the shape of each array next to the line that "
        "fails."
    ),
    "view-of-strided": (
        "`view` fails where entries are not in order in memory, as after a transpose, in a part of a larger tensor or "
        "in a clone of either. `reshape` copies where it must, but what you write into a copy stays there."
    ),
    "index-out-of-range": "An index goes past the end of an axis{at}. What does it count, and what is that axis?",
    "index-out-of-range/size": (
        "An index goes past the end of an axis of length {size}{at}. What does it count, and what is that axis?"
    ),
    "index-out-of-range/list": (
        "An index goes past the end of a list{at}. Can the list be empty, or shorter than your code expects?"
    ),
    "index-out-of-range/unknown": "An index goes past the end{at}. Do you take one size for another?",
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
        "Your code gives more indices to an array than its {axes}{at}. Which axes does the docstring allow?"
    ),
    "number-of-axes/parts": (
        "Your code unpacks into {due} names, but the number of parts is {there}{at}. A shape has a part for each axis."
    ),
    "number-of-axes/more-parts": (
        "Your code unpacks into {due} names, but there are more parts{at}. A shape has a part for each axis."
    ),
    "number-of-axes/unknown": (
        "An array has more or fewer axes than your code expects{at}. Write the shape of each array next to the line "
        "that fails."
    ),
    "does-not-reshape": (
        "The array doesn't have as many entries as the shape {due} needs{at}. Is each of these sizes what it should be?"
    ),
    "does-not-reshape/entries": (
        "An array of {entries} entries cannot take the shape {due}{at}. Is each of these sizes what it should be?"
    ),
    "does-not-reshape/unknown": (
        "An array has too many or too few entries for its new shape{at}. Write the shape of each array next to the "
        "line that fails."
    ),
    # ------------------------------------------------------ functions and generators that you are given, called {name}
    "experiment": "In the case “{case}”: {experiment}",
    "never-calls": "Your function never calls `{name}`.",
    "calls-too-often": (
        "In the case “{case}” `{name}` answers only {allowed}, and your function calls it once more than that."
    ),
    "generator-unused": "Your function never draws from `{name}`.",
    "generator-unused/case": "In the case “{case}” your function does not draw from `{name}`.",
    "generator-unused/wrong": "In the cases that fail your function does not draw from `{name}`.",
    # ---------------------------------------------------- known mistakes; what is said of each stands with the exercise
    "known/either": "Two mistakes would give these results. The first: {advice} The second: {other}",
    "known/ordinary-as-if": "On ordinary inputs your results match what you get from code that {change}.",
    "known/ordinary": "{advice} This explains your results on ordinary inputs.",
    # ---------------------------------------------------------------------- where wrong values begin; {step} is as here
    "step": "{code} (line {line})",
    "overflow": "In the case “{case}” {step} becomes infinite.",
    "overflow/division": "In the case “{case}” {step} becomes infinite, because {divisor} is 0.",
    "overflow/float64": (
        "In the case “{case}” {step} becomes infinite, because its argument reaches {most}. The exponential of 710 is "
        "already too large for float64."
    ),
    "overflow/float32": (
        "In the case “{case}” {step} becomes infinite, because its argument reaches {most}. The exponential of 89 is "
        "already too large for float32."
    ),
    "nan/step": "In the case “{case}” NaN first appears in {step}.",
    "nan/division": "In the case “{case}” NaN first appears in {step}, because {divisor} is 0.",
    "first/shape": "The first step with this shape is {step}.",
    "first/dtype": "The first step with this dtype is {step}.",
    "raises": "Your code raises an error (line {line}) because {condition} holds, but no error is expected there.",
    "own-index-wraps": (
        "In the case “{case}” the index {index} in {step} is {value}, and a negative index counts from the end."
    ),
    "own-index-wraps/zero": (
        "In the case “{case}” the index {index} in {step} is 0, which counts from the front, not from the end."
    ),
    # --------------------------------------------------------------- changes; the words for each: `operators/words.py`
    "as-if": "Your results match what you get from code that {change}.",
    "as-if/results": "{results} {match} what you get from code that {change}.",
    "own": "{change}. Fix only that and every hidden test passes.",
    "own/open": "{change}. With one change there, every hidden test passes.",
    "own/either": "{change}, or else {other}. Fix one of the two and every hidden test passes.",
    # ------------------------------------------------------------------------------------------------- around a finding
    "ended/timeout": "Your function timed out.",
    "ended/crashed": "The process of your function died.",
    "ended/memory": "Comparing what your function returned takes more memory than there is.",
    "raised": "Your function raises {failure}.",
    # The report leaves out what comes after these words.
    "seen": FIRST_SEEN + " “{case}”: {problem}.",
    "seen/case": FIRST_SEEN + " “{case}”.",
    "seen/also": "In the case “{case}” {problem}.",
}


def say(key: str, /, **fields: Any) -> str:
    """Fill in the sentence of this key."""
    return TEMPLATES[key].format(**fields)


def of_results(key: str, names: Sequence[str], **fields: Any) -> str:
    """Fill in a sentence that begins with the names of results."""
    words = listed([spoken(name) for name in names])
    many = len(names) > 1
    numbers = {"are": verb(words, "is", "are", many), "match": verb(words, "matches", "match", many)}
    return say(key, results=begun(words), **numbers, **fields)


def named(key: str, /, certainty: Certainty = Certainty.RELATION, **fields: Any) -> Finding:
    """Name the mistake of this key, whose slug stands before the slash, and say its sentence."""
    return Finding(key.partition("/")[0], say(key, **fields), certainty)
