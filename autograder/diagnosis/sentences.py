"""Every sentence of a finding: to reword one, change it here and nowhere else.

A key is the slug of a finding, or the slug, a slash and a word where one finding has several sentences. `{gaps}` are
filled in; a sentence may leave one out. No mark, no slug and no order of findings depends on a sentence.
"""

from __future__ import annotations

from typing import Any

from ..data import FIRST_SEEN, Certainty, Finding

TEMPLATES: dict[str, str] = {
    # ---------------------------------------------------------------------------------------------- what kind of result
    "returns-none": "The function returns None. Is there a `return` at the end?",
    "returns-input": "The function returns one of its inputs as it came.",
    "swapped-results": "The results come in another order than asked for: {results}.",
    "list-for-tuple": "The function returns a list. Return a tuple: `return first, second`.",
    "wrong-number-of-results": "The function must return a tuple of {results}.",
    "wrong-type": "The function returns {value}: another type than the docstring says.",
    "wrong-dtype": "The result has the wrong dtype: {problem}.",
    "dtype-changed": "The floating dtype of the inputs must be kept: {problem}.",
    "dtype-lost": "The result is less precise than the inputs. Where is float32 forced on it?",
    "materialises": "The numbers are right, but {problem}.",
    "warns": "The numbers are right, but NumPy warns on the way, where the docstring asks for silence.",
    "nan": "The result holds NaN or infinity in the case “{case}”: where does it come from?",
    "wrong-signature": "The function does not take the arguments that its docstring names.",
    "no-error": "The docstring asks for a {error}. Test for it first, and raise it yourself.",
    "opposite": "It says the opposite of what is asked: True wherever False is due, and False wherever True is.",
    "opposite/mostly": (
        "It says the opposite of what is asked: True wherever False is due, and False wherever True is, but for "
        "{others} of {count} cases."
    ),
    # -------------------------------------------------------------------------- lists; {result} is the name of the list
    "one-alone": ("{result}: never more than one is named, where several are due. What is done with the others?"),
    "some-missing": ("{result}: what is named is right, and others that are due are missing. Where do they fall out?"),
    "too-many": "{result}: all that are due are named, and others beside them. What lets these through?",
    "list-order": "{result}: the right ones, in another order.",
    "stops-too-early": "{result}: what is there is right, but the list stops too early: it is {count} short.",
    "stops-too-early/unevenly": (
        "{result}: what is there is right, but the list stops too early: it is short by more in one case than in "
        "another."
    ),
    "goes-on": ("{result}: the right list stands there, and then it goes on: it is {count} too long. What ends it?"),
    "goes-on/unevenly": (
        "{result}: the right list stands there, and then it goes on: it is too long by more in one case than in "
        "another. What ends it?"
    ),
    "ends-elsewhere": (
        "{result}: all entries are right as far as they go, but the list stops too early in some cases, in others "
        "too late."
    ),
    "entries-differ": (
        "{result}: an entry is another one than is due, at the earliest at place {place} (counted from 0). How is it "
        "chosen? Where the list ends follows from that."
    ),
    "last-entry-wrong": "{result}: all entries are right but the last one. What comes there, and when?",
    "begins-too-late": "{result}: the end of the right list stands there, and its beginning is missing.",
    "one-place": "{result}: the lists part at place {place} (counted from 0), in every case that is wrong.",
    "wrong-length": "The list is too long or too short. Which entries belong to it, and when is it done?",
    # -------------------------------------------------------------------------------------------- which cases are wrong
    "fails": "Ordinary cases are right. What fails is {cases}.",
    "fails/criterion": "What is asked under “{criterion}” is right. What fails is {cases}.",
    "fails/raises": "It raises {failure} there.",
    "fails/answers": "It answers {answer} there.",
    "not-general": "Some cases of “{criterion}” are right, others not: {cases}. What sets them apart?",
    "wrong-names": "Wrong is: {cases}.",
    "equal-sizes-only": "Every case in which all sizes are equal is right; not every other is.",
    "single-batch-only": (
        "Right for one sequence alone (B = 1), wrong for a batch: what is done there that is right for one only?"
    ),
    # One of {cases}, and the same where a name was asked for.
    "case": "“{case}”",
    "case/answered": "“{case}” (it answers “{answer}”)",
    # ---------------------------------------------------------------------------------------------------------- numbers
    "through-a-float": (
        "Only the last digits of a very large count are wrong: somewhere on the way it is a float, which holds whole "
        "numbers up to 2**53. A division by `/`, a power of `math` or a mean makes one."
    ),
    "rounded-ids": "Whole numbers are rounded: on the way they are floats, which hold them up to {most}.",
    "off-by-factor": "The result is {factor} times what it should be.",
    "off-by-factor/size": ("The result is {factor} times too large: is a size used or left out once too often?"),
    "off-by-factor/number": "The result is {factor} times what it should be, in every case.",
    "wrong-sign": "The result has the wrong sign everywhere.",
    "inverted": "True and False have changed places.",
    "softmax-over-queries": "The columns of the weights sum to 1, not the rows.",
    "rows-not-normalised": "The rows of the weights do not sum to 1.",
    "rows-shifted": "Each row is right up to one number added to all of its entries.",
    "rows-off-by-factor": "Each row is right up to a factor of its own: by what are rows multiplied or divided?",
    "imprecise": (
        "Close, but less exact than the inputs allow: is there an epsilon, a rounding, a quotient of differences or a "
        "float32 on the way?"
    ),
    "measured-on-draws": (
        "Close, now above and now below: is it measured on random draws? Each of them gives other numbers. Work it out "
        "on paper, and calculate it from the arguments."
    ),
    "transposed": "The result is transposed: rows and columns have changed places.",
    "transposed/one": "{result} is transposed: rows and columns have changed places.",
    "permuted": "The right entries stand in the wrong order along {size}.",
    "permuted/axis": "The right entries stand in the wrong order along axis {axis} of the result.",
    "read-in-another-order": (
        "The entries are read in the order ({there}) where ({due}) is due: a reshape exchanges no axes."
    ),
    "masked-rows": (
        "Right except in rows where nothing may be attended to. There 0 is due, and other numbers stand there: a "
        "softmax spreads its weights even where every key is hidden. What takes them to 0?"
    ),
    "masked-rows/nan": (
        "Right except in rows where nothing may be attended to: the result holds NaN there, where 0 is due."
    ),
    "zero-rows": "Right except in rows that are to be 0 throughout: what stands there?",
    "entries-missing": "Some entries are right and the others are 0: what leaves them out?",
    "same-row-everywhere": "All rows of the result are the same: what tells the tokens apart?",
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
        "The values are right, but gradients do not flow: something on the way leaves the graph, such as `.detach()`, "
        "`.item()`, `.numpy()`, `.data`, `torch.no_grad()`, `torch.tensor(…)` or `nn.Parameter(…)`."
    ),
    "nan-gradient": (
        "The values are right, but the gradient holds NaN. A NaN or an infinite slope on the way, mended later, comes "
        "back in the backward pass: let none arise."
    ),
    "gradient-raises": "The values are right, but it fails where an input asks for a gradient.",
    "gradient-wrong": (
        "The values are right where they are compared, the gradients are not: is a part of the way out of the graph, "
        "or is another way taken there?"
    ),
    # ----------------------------------------------------------------------------- shapes; {axis} is one of those below
    "wrong-shape": "The shape of {result} is {there} where {due} is due.",
    "wrong-shape/numbers-right": (
        "The numbers are right, the shape is not. The shape of {result} is {there} where {due} is due. Is an axis too "
        "many or few?"
    ),
    # One of these comes after the first.
    "wrong-shape/look": "Write down the shape of every step beside the code.",
    "wrong-shape/like": "That is the shape of `{name}`.",
    "wrong-shape/one-number": ("A single number came back: which step drops the axes that are due?"),
    "wrong-shape/lost": "{axis} got lost.",
    "wrong-shape/lost-within": "{axis} got lost in that axis.",
    "wrong-shape/joined": "{axis}: joined with {other}, to be joined with {due}.",
    "wrong-shape/summed": "It is summed over {axis}.",
    "wrong-shape/averaged": "It is averaged over {axis}.",
    "wrong-shape/first": "Of {axis} the first alone is there.",
    "wrong-shape/last": "Of {axis} the last alone is there.",
    "wrong-shape/largest": "Of {axis} the largest alone is there.",
    "axis": "the axis {size}",
    "axis/batch": "the batch ({size})",
    "axis/heads": "the heads ({size})",
    "axis/key-value-heads": "the key/value heads ({size})",
    # What {there} or {due} is where there are no axes.
    "shape/number": "that of a single number",
    # --------------------------------------------------------------------------------- what an exception says of shapes
    # {in_line} is "in line 3 ", or nothing: then the words after it begin with a capital letter.
    "in-line": "in line {line} ",
    "shapes-do-not-fit": "Two arrays do not fit together. Write the shape of each array beside the line that fails.",
    "shapes-do-not-fit/named": (
        "{in_line}an axis of {one} meets one of {other}. Write the shape of each array beside the line that fails."
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
        "{in_line}an index goes past the end of a list: can it be empty, or shorter than is counted on?"
    ),
    "index-out-of-range/unknown": "{in_line}an index goes past the end: is one size taken for another?",
    # {axes} is one of the next two.
    "number-of-axes": (
        "{in_line}an array is taken to have {axes}, and has {there}. Which axes does the docstring allow?"
    ),
    "number-of-axes/one": "{count} axis",
    "number-of-axes/several": "{count} axes",
    "number-of-axes/no-such": (
        "{in_line}axis {axis} is asked for, of an array that has {axes}. Which axes does the docstring allow?"
    ),
    "number-of-axes/indices": (
        "{in_line}an array that has {axes} is given more indices than that. Which axes does the docstring allow?"
    ),
    "number-of-axes/parts": (
        "{in_line}something is taken apart into {due} names, and has {there} parts: a shape has as many parts as there "
        "are axes."
    ),
    "number-of-axes/more-parts": (
        "{in_line}something is taken apart into {due} names, and has more parts: a shape has as many parts as there "
        "are axes."
    ),
    "number-of-axes/unknown": (
        "{in_line}an array has another number of axes than is counted on. Write the shape of each array beside the "
        "line that fails."
    ),
    "does-not-reshape": (
        "{in_line}an array is to take the shape {due}, which has room for more or for fewer: is each of these sizes "
        "what it should be?"
    ),
    "does-not-reshape/entries": (
        "{in_line}an array of {entries} entries is to take the shape {due}, which has room for more or for fewer: is "
        "each of these sizes what it should be?"
    ),
    "does-not-reshape/unknown": (
        "{in_line}an array has too many or too few entries for the shape that it is to take. Write the shape of each "
        "array beside the line that fails."
    ),
    "stacks-different-shapes": (
        "{in_line}arrays of different shapes are stacked: their sizes differ by the docstring."
    ),
    "unequal-parts": (
        "{in_line}an array is split into parts whose sizes do not add up to it: are the parts equally wide?"
    ),
    "inverts-what-is-not-square": (
        "{in_line}a matrix is inverted that is not square, so that it has no inverse. Is there another way to undo it?"
    ),
    "inverts-what-is-singular": (
        "{in_line}a matrix is inverted, or a system solved, that has no inverse: it is singular here. Which way needs "
        "no inverse?"
    ),
    # ------------------------------------------------------- functions and generators that are handed in, called {name}
    "experiment": "In the case “{case}”: {experiment}",
    "never-calls": "It never calls `{name}`, which it is handed.",
    "calls-too-often": "`{name}` answers {allowed} in the case “{case}”, and it is called again.",
    "generator-unused": "It never draws from `{name}`, which it is handed.",
    "generator-unused/case": "In the case “{case}” it does not draw from `{name}`, which it is handed.",
    "generator-unused/wrong": "In the cases that are wrong it does not draw from `{name}`, which it is handed.",
    "generator-unused/same": (
        "The result is the same whatever generator is handed in. Where do the random numbers come from?"
    ),
    "is-given-less/last": "`{name}` is handed the last token alone, not all tokens so far.",
    "is-given-less/reversed": "`{name}` is handed the tokens in reverse order, not all tokens so far.",
    "is-given-less/all-but-first": "`{name}` is handed the tokens without the first, not all tokens so far.",
    "is-given-less/all-but-last": "`{name}` is handed the tokens without the last, not all tokens so far.",
    "is-given-less/same": "`{name}` is handed the same tokens each time, not all tokens so far.",
    "is-given-less/new": ("`{name}` is handed the new tokens without those that came in, not all tokens so far."),
    "sees-no-change": ("`{name}` is handed {arrays} as they came in every call: nothing in them is ever changed."),
    # {parts}: one of the next, or several.
    "sees-part": "In its calls of `{name}` {parts}",
    "sees-part/last": "only the last row of {arrays} is ever changed.",
    "sees-part/first": "only the first row of {arrays} is ever changed.",
    "sees-part/one": "only one row of {arrays} is ever changed.",
    "sees-part/zeros": "all that is changed in {arrays} becomes 0: where it is 0 before, nothing changes.",
    "sees-part/reversed": "{arrays} come in reverse order.",
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
    "ended/timeout": "It did not come to an end.",
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


def named(key: str, /, certainty: Certainty = Certainty.RELATION, **fields: Any) -> Finding:
    """Name the mistake of this key, whose slug stands before the slash, and say its sentence."""
    return Finding(key.partition("/")[0], say(key, **fields), certainty)
