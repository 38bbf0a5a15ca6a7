"""The words for a change: for one of the model solution and for one of a student's program."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from .edit import RANGES, Edit, Parents, called, replaced

#: Longer pieces of a program say less than the name of what is done with them.
LONGEST, LONGEST_OWN, LONGEST_PAIR = 44, 60, 60

#: By detail, what completes "It answers as if …". `{x:words}` is the piece x, or these words where it is long. Where
#: nothing is written, or there is no place for it, both pieces are shown: "`a` were used instead of `b`".
AS_IF = {
    # operations
    "div-left-out": "the division by {gone:the second part} were left out",
    "mult-left-out": "the factor {gone:of one side} were left out",
    "add-left-out": "{gone:one part} were not added",
    "sub-left-out": "{gone:the second part} were not subtracted",
    "matmult-left-out": "the product with {gone:one side} were left out",
    "bitand-left-out": "{gone:one part} did not matter",
    "bitor-left-out": "{gone:one part} did not matter",
    "mult-for-div": "it multiplied by {right:the second part} where it should divide",
    "sub-for-add": "{right:the second part} were subtracted where it should be added",
    "add-for-sub": "{right:the second part} were added where it should be subtracted",
    "sides-of-sub": "{left:the first part} were subtracted from {right:the second part}, not the other way round",
    "div-twice": "it divided by {side:the second part} twice",
    "mult-twice": "the factor {side:of one side} were there twice",
    "add-twice": "{side:one part} were added twice",
    "divides-by-root": "it divided by the root of {right:the second part}",
    "turned-before": "{side:one side} were transposed before the product",
    "transposition-left-out": "{of:something} were not transposed",
    "reshaped": "{of:something} were reshaped, not transposed",
    # calls
    "call-left-out": "`{name}` of {inner:what it is applied to} were left out",
    "function": "`{other}` were used instead of `{name}`",
    "axis": "`{name}` ran {along}, not along {now}",
    "without-keyword": "`{keyword}={value}` were left out of `{name}`",
    "argument-order": "{one:one} and {other:another} had changed places",
    "add-after-the-call": "`{name}` came first, and {right:the second part} was added only after it",
    "range+0-1": "the loop ended one round too early",
    "range+0+1": "the loop made one round too many",
    "range+1+0": "the loop began one round too late",
    "reshape-only": "only a reshape split the axes, which moves none of them",
    "merged-by-reshape": "only a reshape merged the axes, without swapping two",
    "merged-interleaved": "the heads were merged column by column, not block after block",
    "tiled": "copies came in turn (0, 1, 0, 1, …), not side by side (0, 0, 1, 1, …)",
    # numbers, names, sizes
    "default-flag": "the default of `{argument}` were {option}, not {now}",
    "default-number": "`{argument}` were {option} where it is not given",
    "not-used": "`{name}` were {value}, whatever is given",
    "name": "{other} were used instead of {name}",
    "name-turned": "{other}ᵀ were used instead of {name}",
    "key": "`{key}` were used instead of `{now}`",
    "size": "{other} were used instead of {now}",
    "size-off-by-one": "{now} {sign} 1 were used instead of {now}",
    "number-for-size": "{number} were used instead of {now}, whatever it is",
    "number-for-infinity": "a number such as {number} stood for −∞",
    "zero-for-infinity": "0 stood for −∞",
    # one step more on what a line works out
    "call-twice": "`{name}` were taken twice for {what:it}",
    "result-no-abs": "the signs of {what:it} were lost",
    "result-no-sign": "{what:it} had the wrong sign",
    "negatives-cut": "negative entries of {what:it} were cut to 0",
    "result-not-doubled": "{what:it} were doubled",
    "result-not-halved": "{what:it} were halved",
    "result-by-size": "{what:it} were {verb} {size}",
    # statements
    "always": "{test:a condition} always held",
    "never": "{test:a condition} never held",
    "decided-by-sizes": "{test:a condition} were decided in another way",
    "inverted": "{test:a condition} were taken the wrong way round",
    "argument-ignored": "`{argument}` did not matter",
    "argument-given": "`{argument}` were never None",
    "line-left-out": "the step {statement:of one line} were left out",
    "replaces": "{target:the result} were overwritten, not added to",
    "step-later": "the step {step:in one line} came after {other:another}",
    "step-earlier": "the step {step:in one line} came before {other:another}",
    # arguments
    "argument-unit-length": "each row of `{argument}` were brought to length 1 first",
    "argument-absolute": "the signs of `{argument}` were lost",
    "argument-first-for-all": "the first of `{argument}` stood for all along its first axis",
    "argument-cut": "`{argument}` had been cut to whole numbers",
    "argument-one-more": "`{argument}` were larger by 1",
    "argument-one-less": "`{argument}` were smaller by 1",
    "argument-doubled": "`{argument}` were doubled",
    "argument-one": "`{argument}` were 1",
    "roles-exchanged": "`{one}` and `{other}` had changed places everywhere",
}
#: By kind, what is shown where both pieces are too long for "`a` were used instead of `b`".
TOO_LONG = {"comparison": "a comparison", "comparison-off-by-one": "a comparison", "number": "a number"}

#: By detail or kind, what is at fault in a line of the student's own: it completes "In line 3, …". {here}: what stands
#: there; {within}: the expression around it.
IN_LINE = {
    # operations
    "one-step-too-many": "{gone} in {here} doesn't belong there",
    "operation": "the operation in {here} is wrong",
    "sides": "the two sides of {here} are in the wrong order",
    "turned-before": "{side} in {here} must be transposed",
    "brackets": "the brackets in {here} are in the wrong place",
    "parenthesis": "the parenthesis of `{name}` closes in the wrong place in {here}",
    "power-first": "`**` in {here} reaches less far than you meant, because it comes before `*` and `/`",
    "another-size": "{here} is the wrong size to divide in {whole}",
    "out-as-zero": "{mask} in {here} sets what should be left out to 0, which still takes part as 0",
    "sign": "the sign of {here} is wrong",
    "negation": "the negation in {here} is wrong",
    "turned": "the transposition in {here} is wrong",
    # conditions and comparisons
    "or-for-and": "`and` and `or` in {here} are confused",
    "falsy-for-none": "{here} takes a 0 for nothing",
    "one-condition-too-many": "{gone} in {here} doesn't belong there",
    "test": "the test {here} is wrong",
    "comparison": "the comparison {here} is wrong",
    "edge": "the edge of the comparison {here} is wrong",
    "marks-too-few": "entries that do not meet {here} should be marked, too",
    "marks-too-many": "entries that meet {here} should be like the rest",
    "inverted": "the condition {test} is the wrong way round",
    "always": "what follows the condition {test} should run whether it holds or not",
    "never": "what follows the condition {test} should not run when it holds",
    "argument-ignored": "what follows the condition {test} should run whether it holds or not",
    "argument-given": "what follows the condition {test} should not run when it holds",
    "decided-by-sizes": "the condition {test} compares sizes, and sizes may be equal by chance",
    # calls
    "one-choice": "the choice in {here} doesn't belong there",
    "one-choice-too-many": "{gone} in {here} doesn't belong there",
    "one-call-too-many": "the step `{name}` in {here} doesn't belong there",
    "function": "`{name}` in {here} is the wrong function",
    "axis": "the axis of `{name}` in {here} is wrong",
    "keepdims": "`keepdims` in {here} decides whether the axis stays",
    "keyword": "`{keyword}={value}` in {here} doesn't belong there",
    "argument-order": "the arguments in {here} are in the wrong order",
    "step-too-late": "`{name}` in {here} is applied to the wrong part",
    "range": "{here} begins or ends in the wrong place",
    "axes": "the axes in {here} are wrong",
    # indices
    "index-too-many": "the index in {here} doesn't belong there",
    "index": "{which}the index of {here} is wrong",
    "index-order": "the indices in {here} are in the wrong order",
    "key": "`{now}` in {here} is the wrong entry",
    # numbers, names, steps that are missing
    "flag": "{here}{within} is wrong",
    "keyword-flag": "`{argument}={now}` is wrong",
    "number": "the number {here}{within} is wrong",
    "name": "{here}{within} is the wrong name",
    "not-turned": "{here}{within} lacks a step: a transposition",
    "no-root": "{here}{within} lacks a step: a root",
    "no-square": "{here}{within} lacks a step: a square",
    "no-sign": "{here}{within} lacks a step: a sign",
    "not-inverted": "{here}{within} lacks a step: a negation (`~`)",
    "no-complement": "{here}{within} lacks a step: what is missing to 1 (1 − …)",
    "not-doubled": "{here}{within} lacks a step: a factor of 2",
    "not-halved": "{here}{within} lacks a step: a division by 2",
    "no-abs": "{here}{within} lacks a step: its absolute value",
    "one-less": "{here}{within} lacks a step: 1 less",
    "one-more": "{here}{within} lacks a step: 1 more",
    "no-factor": "{here}{within} lacks a factor: `{number}`",
    "no-divisor": "{here}{within} lacks a divisor: `{number}`",
    # statements
    "order-of-results": "{whole} has the results in the wrong order",
    "returned": "{whole} returns something else than the result",
    "not-kept-apart": "{here} in {whole} is written into later, or shares its memory with an array that is",
    "replaces": "{here} adds where it should replace",
    "adds": "{here} overwrites what was there before",
    "unpack-order": "the names on the left of {whole} are in the wrong order",
    "kept-between-calls": "a later call uses what an earlier call left in {place}",
    "one-line-too-many": "{statement} doesn't belong there",
    "block-too-many": "{statement} and the lines below it don't belong there",
    "order-of-lines": "{step} is in the wrong place among the lines",
    "belongs-outside": "{statement} belongs outside of {loop}",
}

_TURNED = re.compile(r"\.(?:T|mT)\b|\.(?:transpose|swapaxes)\((?:-1, -2|-2, -1)\)")


def shown(node: ast.AST) -> str:
    """The text of a piece of a program: √(d_k) for math.sqrt(d_k), Kᵀ for K.T."""
    text = re.sub(r"\b(?:np|torch|math|F|nn\.functional)\.", "", ast.unparse(node))
    text = _TURNED.sub("ᵀ", text)
    text = re.sub(r"\bsqrt\(", "√(", text)
    text = re.sub(r"_size\('([^']*)'\)", lambda found: found[1].replace("*", "·"), text)
    return re.sub(r"√\((\w+)\)", r"√\1", text).replace("\n", " ")


class Brief:
    """A piece of the model solution in backticks, or in other words where it is long: f"{piece:the first part}"."""

    def __init__(self, node: ast.AST) -> None:
        self._node = node

    def __format__(self, otherwise: str) -> str:
        text = shown(self._node)
        if not otherwise:
            return text
        return f"`{text}`" if len(text) <= LONGEST else otherwise


def text_of(node: ast.AST) -> str:
    """A piece of a student's program in backticks, by its first line; of a chain of calls the last ones count."""
    text = ast.unparse(node).partition("\n")[0]
    if len(text) > LONGEST_OWN:
        is_chain = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        text = "…" + text[1 - LONGEST_OWN :] if is_chain else text[: LONGEST_OWN - 1] + "…"
    return f"`{text}`"


def slug_of(*parts: str) -> str:
    """A short and stable name made of words: "left-out-sqrt-d-k"."""
    text = "-".join(parts).replace("√", "sqrt-").replace("ᵀ", "-turned").replace("·", "-times-").lower()
    for sign, word in (("<=", "le"), (">=", "ge"), ("<", "lt"), (">", "gt"), ("@", "at"), ("/", "over"), ("~", "not-")):
        text = text.replace(sign, f"-{word}-")
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")[:60].strip("-")


def name_of(edit: Edit) -> str:
    """The name of a mutant of the model solution: "div-left-out-sqrt-d-k"."""
    pieces = [shown(each) if isinstance(each, ast.AST) else str(each) for each in edit.fields.values() if each]
    if edit.detail not in AS_IF and isinstance(edit.new, ast.expr):
        pieces = [shown(edit.new)]
    return slug_of(edit.detail, *pieces)


def as_if(edit: Edit, parents: Parents) -> str:
    """What completes "It answers as if …", of a change of the model solution."""
    where = _place_of(edit.old, parents)
    if edit.detail in AS_IF and where is None:
        fields = {name: Brief(each) if isinstance(each, ast.AST) else each for name, each in edit.fields.items()}
        return AS_IF[edit.detail].format(**fields)
    around = where or (_around(edit.old, parents) if edit.kind in ("number", "sign") else edit.old)
    new, old = shown(replaced(around, edit.old, edit.new)), shown(around)
    if max(len(new), len(old)) <= LONGEST_PAIR:
        return f"`{new}` were used instead of `{old}`"
    if "option" in edit.fields:
        brackets = "`[{}]`" if edit.kind == "index" else "{}"
        pair = (edit.fields["option"], edit.fields.get("part", edit.fields.get("now")))
        new, old = (brackets.format(shown(each) if isinstance(each, ast.AST) else each) for each in pair)
        return f"{new} were used instead of {old}"
    if edit.kind == "count":
        argument, other = (shown(edit.fields[name]) for name in ("argument", "other"))
        return f"`{other}` were used instead of `{argument}` in `{edit.fields['name']}`"
    return f"{TOO_LONG.get(edit.kind, 'a step')} were different"


def _around(node: ast.AST, parents: Parents) -> ast.AST:
    """The smallest expression about a number that says something by itself."""
    around = parents.get(node, node)
    if isinstance(around, ast.Assign):
        return around
    inner = (ast.Slice, ast.UnaryOp, ast.Tuple, ast.keyword)
    while around in parents and (isinstance(around, inner) or _is_a_place(around, parents)):
        around = parents[around]
    return around if isinstance(around, ast.expr) else node


def _place_of(node: ast.AST, parents: Parents) -> ast.AST | None:
    """What is to be shown of a sum or a difference that says where, and of what something is divided by."""
    if _is_a_place(node, parents):
        return _around(node, parents)
    above = parents.get(node)
    divides = isinstance(above, ast.BinOp) and isinstance(above.op, (ast.Div, ast.FloorDiv)) and above.right is node
    return node if divides and isinstance(node, ast.BinOp) else None


def _is_a_place(node: ast.AST, parents: Parents) -> bool:
    """A sum or difference that says where: i - 1 in weights[i, i - 1]."""
    inner, above = node, parents.get(node)
    while isinstance(above, (ast.Slice, ast.Tuple, ast.BinOp)):
        inner, above = above, parents.get(above)
    inside = isinstance(above, ast.Subscript) and above.slice is inner
    counts = isinstance(above, ast.Call) and inner in above.args and called(above)[0] in RANGES
    return isinstance(node, ast.BinOp) and (inside or counts)


def told_apart(edit: Edit, others: Sequence[Edit], parents: Parents) -> str:
    """The words of a change, and where it is if the same words fit another of these changes."""
    words = as_if(edit, parents)
    alike = [one for one in others if one.detail == edit.detail and one.place != edit.place]
    nodes = {one.place: one.old for one in (edit, *alike) if one is edit or as_if(one, parents) == words}
    if len(nodes) == 1:
        return words
    same = sorted(nodes, key=lambda place: (getattr(nodes[place], "lineno", 0), getattr(nodes[place], "col_offset", 0)))
    told = [_in_which_line(nodes[place], parents) for place in same]
    index = same.index(edit.place)
    return words + (told[index] if told.count(told[index]) == 1 else f" (place {index + 1} of {len(same)})")


def _in_which_line(node: ast.AST, parents: Parents) -> str:
    while not isinstance(node, ast.stmt) and node in parents:
        node = parents[node]
    if isinstance(node, ast.Return):
        return " in what it returns"
    if isinstance(node, ast.For):
        return f" in `for {shown(node.target)} in {shown(node.iter)}`"
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return f" where `{shown(target)}` is worked out" if isinstance(target, ast.Name) else ""


def in_line(edits: Sequence[Edit], parents: Parents) -> str:
    """What completes "In line 3, …", of a change of a student's program, made at one place or at several."""
    first, *others = edits
    words = _in_line(first, parents)
    if not others:
        return words
    beside = [
        _in_line(one, parents) if one.line == first.line else f"in line {one.line}, {_in_line(one, parents)}"
        for one in others
    ]
    return f"{words}; also, {', and '.join(beside)}"


def _in_line(edit: Edit, parents: Parents) -> str:
    parent = parents.get(edit.old)
    inside = isinstance(parent, ast.expr)
    fields: dict[str, Any] = {
        name: text_of(each) if isinstance(each, ast.AST) else each for name, each in edit.fields.items()
    }
    fields["here"] = text_of(edit.old)
    fields["within"] = f" in {text_of(parent)}" if inside else ""
    fields["which"] = f"{fields.get('part')} in " if fields.get("several") else ""
    template = IN_LINE.get(edit.detail) or IN_LINE[edit.kind]
    return template.format(**fields)
