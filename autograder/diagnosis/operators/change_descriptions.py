"""Words each change: for mutants of the model solution, and for repairs of a student's function."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Sequence
from string import Formatter
from typing import Any

from ...safe_text import listed
from .program_edit import RANGES, Edit, Parents, called, replaced

#: Longer pieces of a program are not shown.
LONGEST, LONGEST_OWN, LONGEST_PAIR = 44, 60, 60

#: By detail, what completes "Judging by its results, your code …". The first sentence shows pieces of the
#: model solution. The second shows none; it is used if a piece is long or has a name that no student knows.
AS_IF = {
    # operations
    "div-left-out": ("leaves out the division by {gone}", "leaves out a division"),
    "mult-left-out": ("leaves out the factor {gone}", "leaves out a factor"),
    "add-left-out": ("doesn't add {gone}", "leaves out an addition"),
    "sub-left-out": ("doesn't subtract {gone}", "leaves out a subtraction"),
    "matmult-left-out": ("leaves out the product with {gone}", "leaves out a matrix product"),
    "bitand-left-out": ("ignores {gone}", "ignores one of two conditions"),
    "bitor-left-out": ("ignores {gone}", "ignores one of two conditions"),
    "mult-for-div": ("multiplies by {right} where it should divide", "multiplies where it should divide"),
    "sub-for-add": ("subtracts {right} where it should add it", "subtracts where it should add"),
    "add-for-sub": ("adds {right} where it should subtract it", "adds where it should subtract"),
    "sides-of-sub": ("subtracts {left} from {right}, not the other way round", "swaps the two sides of a subtraction"),
    "div-twice": ("divides by {side} twice", "divides by the same number twice"),
    "mult-twice": ("multiplies by {side} twice", "multiplies by the same factor twice"),
    "add-twice": ("adds {side} twice", "adds the same part twice"),
    "divides-by-root": (
        "divides by the square root of {right}",
        "divides by the square root of a number, not by the number itself",
    ),
    "turned-before": ("transposes {side} before the product", "transposes one of the two matrices of a product"),
    "transposition-left-out": ("doesn't transpose {of}", "leaves out a transposition"),
    "reshaped": ("reshapes {of} instead of transposing it", "reshapes where it should transpose"),
    # calls
    "call-left-out": ("leaves out `{name}` of {inner}", "leaves out `{name}`"),
    "function": ("uses `{other}` instead of `{name}`", "uses `{other}` instead of `{name}`"),
    "axis": ("applies `{name}` {along}",) * 2,
    "without-keyword": ("leaves out `{keyword}={value}` in `{name}`", "leaves out `{keyword}` in `{name}`"),
    "argument-order": ("swaps {one} and {other}", "swaps two arguments"),
    "add-after-the-call": (
        "adds {right} after taking `{name}`, not before",
        "adds a term after taking `{name}`, not before",
    ),
    "range+0-1": ("stops a loop one round too early",) * 2,
    "range+0+1": ("stops a loop one round too late",) * 2,
    "range+1+0": ("starts a loop one round too late",) * 2,
    "reshape-only": ("splits an axis with a reshape, but doesn't swap two axes afterwards",) * 2,
    "merged-by-reshape": ("merges two axes with a reshape, but doesn't swap axes first",) * 2,
    "merged-interleaved": ("merges the heads column by column, not block after block",) * 2,
    "tiled": ("repeats the entries in the order 0, 1, 0, 1, … instead of 0, 0, 1, 1, …",) * 2,
    # numbers, names, sizes
    "default-flag": ("uses {option} as the default of `{argument}`",) * 2,
    "default-number": ("uses {option} as the default of `{argument}`",) * 2,
    "not-used": ("always uses {value} for `{name}`",) * 2,
    "name": ("uses `{other}` instead of `{name}`", "uses the wrong intermediate value in one step"),
    "name-turned": ("uses `{other}`ᵀ instead of `{name}`", "uses the transpose of the wrong matrix in one step"),
    "key": ("uses `{key}` instead of `{now}`",) * 2,
    "size": ("uses {other} instead of {now:plain}", "uses {other} instead of another size"),
    "size-off-by-one": ("uses {now:plain} {sign} 1 instead of {now:plain}", "uses a size that is off by 1"),
    "number-for-size": ("always uses {number} instead of {now:plain}", "uses the fixed number {number} for a size"),
    "number-for-infinity": ("hides entries with a finite number such as {number} instead of −∞",) * 2,
    "zero-for-infinity": ("gives hidden entries the score 0, so they still get a weight",) * 2,
    # one more step on the result of a line
    "call-twice": ("takes `{name}` of {what} twice", "takes `{name}` twice"),
    "result-no-abs": ("takes the absolute value of {what}", "takes an absolute value in one step"),
    "result-no-sign": ("gives {what} the wrong sign", "gets a sign wrong in one step"),
    "negatives-cut": ("replaces negative entries of {what} by 0", "replaces negative entries by 0 in one step"),
    "result-not-doubled": ("doubles {what}", "doubles the values of one step"),
    "result-not-halved": ("halves {what}", "halves the values of one step"),
    "result-by-size": ("{does} {what} by {size}", "{does} the values of one step by {size}"),
    # statements
    "always": ("acts as if {test} were always true", "takes the same branch in every case"),
    "never": ("acts as if {test} were never true", "never takes one of its branches"),
    "decided-by-sizes": ("uses another condition than {test}", "uses another condition to choose between two branches"),
    "inverted": ("does the opposite of what it should when {test}", "swaps the two branches of a condition"),
    "argument-ignored": ("ignores `{argument}`",) * 2,
    "argument-given": ("acts as if `{argument}` were never None",) * 2,
    "line-left-out": ("leaves out the step {statement}", "leaves out a step"),
    "replaces": ("overwrites {target} instead of adding to it", "overwrites a sum instead of adding to it"),
    "step-later": ("does {step} after {other}", "does one of its steps too late"),
    "step-earlier": ("does {step} before {other}", "does one of its steps too early"),
    # arguments
    "argument-unit-length": ("first scales each row of `{argument}` to length 1",) * 2,
    "argument-absolute": ("uses the absolute values of `{argument}`",) * 2,
    "argument-first-for-all": ("uses the first entry of `{argument}` for all the others, too",) * 2,
    "argument-cut": ("first rounds `{argument}` towards 0 to whole numbers",) * 2,
    "argument-one-more": ("takes `{argument}` to be larger by 1 than it is",) * 2,
    "argument-one-less": ("takes `{argument}` to be smaller by 1 than it is",) * 2,
    "argument-doubled": ("takes `{argument}` to be twice as large as it is",) * 2,
    "argument-one": ("takes `{argument}` to be 1, whatever it is",) * 2,
    "roles-exchanged": ("swaps `{one}` and `{other}` everywhere",) * 2,
}
#: By detail and the names of functions that few students know, the same for the effect.
RARE = {
    ("call-left-out", "nan_to_num", "None"): ("lets NaN through where a number should be",) * 2,
    ("function", "median", "median_high"): ("takes the upper of the two middle numbers instead of their mean",) * 2,
    ("function", "median", "median_low"): ("takes the lower of the two middle numbers instead of their mean",) * 2,
}
#: By detail or kind, the words used if the pieces are long or have a name that no student knows.
UNSHOWN = {
    "operation": "uses the wrong operation in one step",
    "sides": "swaps the two sides of an operation",
    "one-step-too-many": "leaves out a term or a factor",
    "one-condition-too-many": "leaves out one of its conditions",
    "one-choice-too-many": "always uses the same one of two values",
    "choice-left-out": "leaves out a `max` or `min`",
    "or-for-and": "confuses `and` with `or`",
    "brackets": "puts brackets in the wrong place",
    "comparison": "uses the wrong comparison",
    "edge": "is off by 1 in a comparison",
    "comparison-off-by-one": "is off by 1 in a comparison",
    "number": "uses the wrong number in one step",
    "sign": "leaves out a minus sign or a negation",
    "index": "reads the wrong entries of an array",
    "index-order": "has two indices in the wrong order",
    "count": "is off by 1 in how often it repeats something",
    "step-too-late": "applies a function too late",
}
#: The words for all other kinds.
ANYTHING = "does one step differently"

#: By kind and detail, by detail or by kind, what is wrong in a line of the student's function. {here}: the old piece;
#: {at}: the piece with its line; {spot}: the piece with its line and the expression around it.
IN_LINE = {
    # operations
    "one-step-too-many": "{gone} doesn't belong in {at}",
    "operation": "{at} uses the wrong operation",
    "sides": "the two sides of {at} are in the wrong order",
    "turned-before": "{side} in {at} should be transposed",
    "brackets": "the brackets in {at} are in the wrong place",
    "parenthesis": "the parenthesis of `{name}` closes in the wrong place in {at}",
    "power-first": "in {at}, `**` binds more tightly than `*` and `/`, so the power applies to less than you meant",
    "another-size": "{whole} (line {line}) divides the wrong size",
    "out-as-zero": "{mask} in {at} sets entries to 0 that should be left out, but a 0 still counts",
    "sign": "the sign of {at} is wrong",
    "negation": "the negation in {at} is wrong",
    "turned": "the transposition in {at} doesn't belong there",
    # conditions and comparisons
    "or-for-and": "{at} confuses `and` with `or`",
    "falsy-for-none": "{at} treats a 0 as if no number were given",
    "one-condition-too-many": "{gone} doesn't belong in {at}",
    "test": "{at} tests the opposite of what it should",
    "comparison": "the comparison {at} is wrong",
    "comparison/edge": "the comparison {at} is wrong when both sides are equal",
    "comparison-off-by-one": "the comparison {at} is off by one",
    "marks-too-few": "{at} should be True for more entries than it is",
    "marks-too-many": "{at} is True for entries that should be treated like the rest",
    "inverted": "the condition {test} (line {line}) is the opposite of what it should be",
    "always": "the branch under {test} (line {line}) should run even when this condition is false",
    "never": "the branch under {test} (line {line}) should not run even when this condition is true",
    "argument-ignored": "the branch under {test} (line {line}) should run even when this condition is false",
    "argument-given": "the branch under {test} (line {line}) should not run even when this condition is true",
    "decided-by-sizes": "the condition {test} (line {line}) compares sizes, which may be equal by chance",
    # calls
    "one-choice": "{at} should use the same one of its two values everywhere",
    "one-choice-too-many": "{gone} doesn't belong in {at}",
    "one-call-too-many": "`{name}` doesn't belong in {at}",
    "function": "`{name}` is the wrong function in {at}",
    "axis": "{at} takes `{name}` over the wrong axis",
    "axis/all": "{at} takes `{name}` over all axes instead of only some",
    "keepdims": "{at} has the wrong setting of `keepdims`",
    "keyword": "`{keyword}={value}` doesn't belong in {at}",
    "argument-order": "the arguments in {at} are in the wrong order",
    "step-too-late": "`{name}` is applied to the wrong part of {at}",
    "range": "{at} starts or ends at the wrong number",
    "axes": "{at} names the wrong axes",
    # indices
    "index-too-many": "{at} picks a part of an array that should be used as a whole",
    "index": "{which} in {at} is wrong",
    "index-order": "the indices in {at} are in the wrong order",
    "key": "`{now}` in {at} is the wrong entry",
    # numbers, names, missing steps
    "flag": "{spot} is wrong",
    "keyword-flag": "`{argument}={now}` (line {line}) is wrong",
    "number": "{spot} is the wrong number",
    "name": "{spot} is the wrong variable",
    "not-turned": "{spot} should be transposed",
    "no-root": "{spot} is missing a square root",
    "no-square": "{spot} should be squared",
    "no-sign": "{spot} has the wrong sign",
    "not-inverted": "{spot} should be negated (`~`)",
    "no-complement": "{spot} should be subtracted from 1",
    "not-doubled": "{spot} is missing a factor of 2",
    "not-halved": "{spot} should be divided by 2",
    "no-abs": "{spot} should be an absolute value",
    "one-less": "{spot} is too large by 1",
    "one-more": "{spot} is too small by 1",
    "no-factor": "{spot} is missing the factor `{number}`",
    "no-divisor": "{spot} should be divided by `{number}`",
    # statements
    "order-of-results": "{whole} (line {line}) has the results in the wrong order",
    "returned": "{whole} (line {line}) returns the wrong value",
    "not-kept-apart": "{at} shares its memory with an array that your code changes later, so copy it",
    "replaces": "{at} {does} the old value instead of replacing it",
    "adds": "{at} overwrites a value that should be kept",
    "unpack-order": "the names on the left of {whole} (line {line}) are in the wrong order",
    "kept-between-calls": "a later call of your function uses what an earlier call left in {place} (line {line})",
    "one-line-too-many": "{statement} (line {line}) doesn't belong there",
    "block-too-many": "the whole block {statement} (line {line}) doesn't belong there",
    "step-later": "{step} (line {line}) runs too early",
    "step-earlier": "{step} (line {line}) runs too late",
    "belongs-outside": "{statement} (line {line}) belongs outside of {loop}",
}

#: What `+=` and the like do to the old value.
CARRIES_ON = {ast.Add: "adds to", ast.Sub: "subtracts from", ast.Mult: "multiplies", ast.Div: "divides"}
#: Functions that reduce an array to one number if they get no axis.
REDUCES = frozenset(
    (
        *("sum", "mean", "max", "min", "amax", "amin", "prod", "std", "var", "any", "all", "norm", "nansum", "nanmean"),
        *("argmax", "argmin", "median"),
    )
)
MODULES = ("np", "numpy", "torch", "linalg", "math")
#: Which of several pieces that look the same is meant.
ORDINALS = ("first", "second", "third", "fourth")
#: Details whose names are names of functions.
OF_FUNCTIONS = ("call-left-out", "function", "axis", "without-keyword", "add-after-the-call", "call-twice")
#: A string in a program.
QUOTED = re.compile(r"(?<!\w)'[^']*'")
_TURNED = re.compile(r"\.(?:T|mT)\b|\.(?:transpose|swapaxes)\((?:-1, -2|-2, -1)\)")


def shown(node: ast.AST) -> str:
    """Return the text of a piece of a program: √(d_k) for math.sqrt(d_k), Kᵀ for K.T."""
    text = re.sub(r"\b(?:np|torch|math|F|nn\.functional)\.", "", ast.unparse(node))
    text = _TURNED.sub("ᵀ", text)
    text = re.sub(r"\bsqrt\(", "√(", text)
    text = re.sub(r"_size\('([^']*)'\)", lambda found: found[1].replace("*", "·"), text)
    return re.sub(r"√\((\w+)\)", r"√\1", text).replace("\n", " ")


class Piece(str):
    """The text of a piece of the model solution: f"{piece}" puts it in backticks, f"{piece:plain}" does not."""

    def __format__(self, form: str) -> str:
        return f"{self!s}" if form == "plain" else f"`{self!s}`"


def text_of(node: ast.AST) -> str:
    """Return the first line of a student's code in backticks, cut if long (at the start of a chain of calls)."""
    text = ast.unparse(node).partition("\n")[0]
    if len(text) > LONGEST_OWN:
        is_chain = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        text = "…" + text[1 - LONGEST_OWN :] if is_chain else text[: LONGEST_OWN - 1] + "…"
    return f"`{text}`"


def slug_of(*parts: str) -> str:
    """Return a short and stable name made of words: "left-out-sqrt-d-k"."""
    text = "-".join(parts).replace("√", "sqrt-").replace("ᵀ", "-turned").replace("·", "-times-").lower()
    for sign, word in (("<=", "le"), (">=", "ge"), ("<", "lt"), (">", "gt"), ("@", "at"), ("/", "over"), ("~", "not-")):
        text = text.replace(sign, f"-{word}-")
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")[:60].strip("-")


def name_of(edit: Edit) -> str:
    """Return the name of a mutant of the model solution: "div-left-out-sqrt-d-k"."""
    pieces = [shown(each) if isinstance(each, ast.AST) else str(each) for each in edit.fields.values() if each]
    if edit.detail not in AS_IF and isinstance(edit.new, ast.expr):
        pieces = [shown(edit.new)]
    return slug_of(edit.detail, *pieces)


def as_if(edit: Edit, parents: Parents, hidden: Collection[str] = ()) -> str:
    """Return the words for a mutant that complete "… your code". hidden: names that they must not contain."""
    where = _place_of(edit.old, parents)
    if edit.detail in AS_IF and where is None:
        fields = {name: _piece(each) if isinstance(each, ast.AST) else each for name, each in edit.fields.items()}
        fields["does"] = "divides" if fields.get("verb") == "divided by" else "multiplies"
        rare = RARE.get((edit.detail, str(fields.get("name")), str(fields.get("other"))))
        named, unnamed = rare or _of_name(edit, hidden) or AS_IF[edit.detail]
        said = [name for _, name, _, _ in Formatter().parse(named) if name]
        said = [str(fields[name]) for name in said if edit.detail not in OF_FUNCTIONS or name not in ("name", "other")]
        is_said = all(len(each) <= LONGEST for each in said) and not _names_any(said, hidden)
        return _unshown(edit) if named == unnamed and not is_said else (named if is_said else unnamed).format(**fields)
    around = where or (_around(edit.old, parents) if edit.kind in ("number", "sign") else edit.old)
    new, old = shown(replaced(around, edit.old, edit.new)), shown(around)
    if max(len(new), len(old)) <= LONGEST_PAIR and not _names_any((new, old), hidden):
        gives_away = re.fullmatch(r"-?[\w.]+", old) is None
        return f"uses the wrong expression `{new}`" if gives_away else f"uses `{new}` instead of `{old}`"
    if "option" in edit.fields:
        new = edit.fields["option"]
        text = shown(new) if isinstance(new, ast.AST) else str(new)
        if not _names_any([text], hidden):
            return f"uses the wrong {'index' if edit.kind == 'index' else 'number'} `{text}` in one step"
    return _unshown(edit)


def _piece(node: ast.AST) -> Piece:
    """The text of a piece, with the key for an entry of a dict: W_Q for params['W_Q']."""
    return Piece(re.sub(r"\b\w+\['(\w+)'\]", r"\1", shown(node)))


def _of_name(edit: Edit, hidden: Collection[str]) -> tuple[str, str] | None:
    """The sentences for one name used instead of another, if only one of the two may be shown."""
    if edit.detail != "name" or (edit.fields["name"] in hidden) == (edit.fields["other"] in hidden):
        return None
    if edit.fields["name"] in hidden:
        return ("uses `{other}` where it needs a value that has to be computed first",) * 2
    return ("uses another value in a place where it needs `{name}`",) * 2


def _unshown(edit: Edit) -> str:
    return next((UNSHOWN[key] for key in (edit.detail, edit.kind) if key in UNSHOWN), ANYTHING)


def _names_any(texts: Iterable[str], names: Collection[str]) -> bool:
    """Whether these pieces of a program contain one of the names outside of strings."""
    return any(name in names for text in texts for name in re.findall(r"\w+", QUOTED.sub("", text)))


def _around(node: ast.AST, parents: Parents) -> ast.AST:
    """The smallest expression around a number that is clear by itself."""
    around = parents.get(node, node)
    if isinstance(around, ast.Assign):
        return around
    inner = (ast.Slice, ast.UnaryOp, ast.Tuple, ast.keyword)
    while around in parents and (isinstance(around, inner) or _is_a_place(around, parents)):
        around = parents[around]
    return around if isinstance(around, ast.expr) else node


def _place_of(node: ast.AST, parents: Parents) -> ast.AST | None:
    """The node to show for a sum or difference that is an index or count, or for a divisor; else None."""
    if _is_a_place(node, parents):
        return _around(node, parents)
    above = parents.get(node)
    divides = isinstance(above, ast.BinOp) and isinstance(above.op, (ast.Div, ast.FloorDiv)) and above.right is node
    return node if divides and isinstance(node, ast.BinOp) else None


def _is_a_place(node: ast.AST, parents: Parents) -> bool:
    """Whether it is an operation in an index or a count: i - 1 in weights[i, i - 1]."""
    inner, above = node, parents.get(node)
    while isinstance(above, (ast.Slice, ast.Tuple, ast.BinOp)):
        inner, above = above, parents.get(above)
    inside = isinstance(above, ast.Subscript) and above.slice is inner
    counts = isinstance(above, ast.Call) and inner in above.args and called(above)[0] in RANGES
    return isinstance(node, ast.BinOp) and (inside or counts)


def told_apart(edit: Edit, others: Sequence[Edit], parents: Parents, hidden: Collection[str] = ()) -> str:
    """Return the words for a change, with its place if the same words fit another change elsewhere."""
    words = as_if(edit, parents, hidden)
    alike = [one for one in others if one.detail == edit.detail and one.place != edit.place]
    places = [_in_which_line(one.old, parents, hidden) for one in alike if as_if(one, parents, hidden) == words]
    own = _in_which_line(edit.old, parents, hidden)
    return words + own if places and own not in places else words


def _in_which_line(node: ast.AST, parents: Parents, hidden: Collection[str]) -> str:
    while not isinstance(node, ast.stmt) and node in parents:
        node = parents[node]
    if isinstance(node, ast.Return):
        return " in what it returns"
    place = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if not isinstance(place, ast.Name) or place.id in hidden or isinstance(node, ast.For):
        return ""
    return f" where it works out `{place.id}`"


def in_line(edits: Sequence[Edit], parents: Parents) -> str:
    """Return what is wrong in a student's function, for a change in one place or in several."""
    first, *others = edits
    words, fields = _in_line(first, parents), [_fields(one, parents) for one in edits]
    if len({each.get("gone") for each in fields}) > 1:  # what doesn't belong there differs
        return listed([words, *(_in_line(one, parents) for one in others)])
    place = "spot" if "{spot}" in _template(first) else "at"
    spots = [each[place] for each in fields[1:]]
    return f"{words}, and the same goes for {listed(spots)}" if spots else words


def _in_line(edit: Edit, parents: Parents) -> str:
    return _template(edit).format(**_fields(edit, parents))


def _template(edit: Edit) -> str:
    keys = (f"{edit.kind}/{edit.detail}", edit.detail, edit.kind)
    if edit.kind == "axis" and _goes_over_all(edit.old):
        keys = ("axis/all",)
    return next(IN_LINE[key] for key in keys if key in IN_LINE)


def _goes_over_all(node: ast.AST) -> bool:
    """Whether it reduces an array to one number, because it names no axis."""
    if not isinstance(node, ast.Call) or called(node)[0] not in REDUCES:
        return False
    module = (
        node.func.value.id if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) else ""
    )
    is_method = isinstance(node.func, ast.Attribute) and module not in MODULES
    return len(node.args) == (0 if is_method else 1) and not any(k.arg in ("axis", "dim") for k in node.keywords)


def _of_operator(gone: ast.AST, node: ast.AST) -> str:
    """What doesn't belong in an operation, with its operator: `- 1` in `n - 1`."""
    if not isinstance(node, ast.BinOp) or gone not in (node.left, node.right):
        return text_of(gone)
    whole, text = ast.unparse(node), ast.unparse(gone)
    if gone is node.right:
        shown_left = next(
            (w for w in (ast.unparse(node.left), f"({ast.unparse(node.left)})") if whole.startswith(w)), ""
        )
        rest = whole[len(shown_left) :].strip()
    else:
        right = next((w for w in (ast.unparse(node.right), f"({ast.unparse(node.right)})") if whole.endswith(w)), "")
        rest = whole[: len(whole) - len(right)].strip()
    return f"`{rest}`" if len(rest) <= LONGEST_OWN and text in rest and "\n" not in rest else text_of(gone)


def _fields(edit: Edit, parents: Parents) -> dict[str, Any]:
    parent = parents.get(edit.old)
    fields = {name: text_of(each) if isinstance(each, ast.AST) else each for name, each in edit.fields.items()}
    here, within = text_of(edit.old), f" in {text_of(parent)}" if isinstance(parent, ast.expr) else ""
    if edit.kind == "replaces":
        fields["does"] = CARRIES_ON.get(type(getattr(edit.old, "op", None)), "carries on")
    if isinstance(edit.fields.get("gone"), ast.AST):
        fields["gone"] = _of_operator(edit.fields["gone"], edit.old)
    which = f"the index {fields.get('part')}" if fields.get("several") else "the index"
    at, spot = (f"{code} (line {edit.line})" for code in (here, here + within))
    return {
        **fields,
        "here": here,
        "at": at,
        "spot": _which_of(edit.old, parent) + spot,
        "line": edit.line,
        "which": which,
    }


def _which_of(node: ast.AST, parent: ast.AST | None) -> str:
    """ "the second " if the expression around a piece holds several that look the same; else ""."""
    if not isinstance(parent, ast.expr):
        return ""
    text = ast.unparse(node)
    alike = [each for each in ast.walk(parent) if isinstance(each, type(node)) and ast.unparse(each) == text]
    alike.sort(key=lambda each: (getattr(each, "lineno", 0), getattr(each, "col_offset", 0)))
    place = next((place for place, each in enumerate(alike) if each is node), len(ORDINALS))
    return f"the {ORDINALS[place]} " if len(alike) > 1 and place < len(ORDINALS) else ""
