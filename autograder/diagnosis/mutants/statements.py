"""Mutations of statements and arguments: a step left out, a loop too short, an argument changed first."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from copy import deepcopy

from .edit import FAR, ODD, POSSIBLE, Edit, brief, called, change, shown, slug_of


def of_condition(node: ast.IfExp | ast.If) -> Iterator[Edit]:
    condition = brief(node.test, "a condition")
    for value, word in ((True, "always"), (False, "never")):
        new = deepcopy(node)
        new.test = ast.Constant(value)
        words = _given(node.test, value) or f"{condition} {word} held"
        yield Edit(node.number, new, slug_of(word, shown(node.test)), words, kind=f"{word} held")
    new = deepcopy(node)
    new.test = ast.UnaryOp(ast.Not(), node.test)
    yield Edit(node.number, new, slug_of("inverted", shown(node.test)), f"{condition} were taken the wrong way round")


def _given(test: ast.expr, held: bool) -> str:
    """What it means for the argument that a test for None always holds, or never."""
    if (
        not (isinstance(test, ast.Compare) and isinstance(test.left, ast.Name))
        or ast.unparse(test.comparators[0]) != "None"
    ):
        return ""
    missing = isinstance(test.ops[0], ast.Is) == held
    return f"`{test.left.id}` did not matter" if missing else f"`{test.left.id}` were never None"


def of_return(node: ast.Return, tree: ast.FunctionDef) -> Iterator[Edit]:
    """An argument that is added to the result, as a residual connection does."""
    results = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    for result, argument in itertools.product(results[:1], tree.args.args):
        if not isinstance(result, (ast.Constant, ast.Tuple, type(None))):
            new = ast.BinOp(result, ast.Add(), ast.Name(argument.arg, ast.Load()))
            words = f"`{argument.arg}` were added to {brief(result, 'the result')}"
            yield Edit(result.number, new, slug_of(argument.arg, "added-to", shown(result)), words, POSSIBLE)


def of_statement(node: ast.stmt, tree: ast.FunctionDef, parents: dict[ast.AST, ast.AST]) -> Iterator[Edit]:
    if isinstance(node, ast.AugAssign):
        step = brief(node, "a step")
        yield change(node, None, f"without-{shown(node)}", f"the step {step} were left out")
        new = ast.Assign([node.target], node.value)
        looped = isinstance(parents.get(node), ast.For)
        words = f"each round of the loop overwrote {brief(node.target, 'the result')}" if looped else (
            f"{brief(node.target, 'the result')} were overwritten, not added to")  # fmt: skip
        yield change(node, new, f"overwrites-{shown(node.target)}", words)
    elif isinstance(node, ast.Expr) or (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], (ast.Name, ast.Subscript))
        and _bound_before(node.targets[0], node, tree)
    ):
        yield change(node, None, f"without-{shown(node)}", f"the step {brief(node, 'of one line')} were left out")


def of_value(node: ast.stmt, sizes: Sequence[str]) -> Iterator[Edit]:
    """One step more than is due on what is worked out in a line."""
    value = node.value
    if not isinstance(value, (ast.BinOp, ast.Call)):
        return
    what = brief(node.targets[0], "it") if isinstance(node, ast.Assign) else brief(value, "it")
    if isinstance(value, ast.Call) and value.args and not isinstance(node, ast.Expr):
        twice = deepcopy(value)
        twice.args[0] = deepcopy(value)
        name, method = called(value)
        if name and not method:
            yield Edit(value.number, twice, slug_of(name, "twice"), f"`{name}` were taken twice for {what}", POSSIBLE)
    cut = ast.BinOp(value, ast.Mult(), ast.Compare(value, [ast.Gt()], [ast.Constant(0)]))
    for new, slug, words in (
        (ast.Call(ast.Name("abs", ast.Load()), [value], []), "absolute", f"the signs of {what} were lost"),
        (ast.UnaryOp(ast.USub(), value), "negated", f"{what} had the wrong sign"),
        (cut, "negatives-cut", f"negative entries of {what} were cut to 0"),
    ):
        yield Edit(value.number, new, slug_of(slug, what), words, POSSIBLE)
    yield from _of_a_factor(value, what, sizes)


def _of_a_factor(value: ast.expr, what: str, sizes: Sequence[str]) -> Iterator[Edit]:
    """A division or a factor that nobody asked for: by a size, by its root, by 2."""
    for name in sizes:
        size = ast.Call(ast.Name("_size", ast.Load()), [ast.Constant(name)], [])
        root = ast.BinOp(size, ast.Pow(), ast.Constant(0.5))
        for by, said in ((root, f"√{name}"), (size, name)):
            for operator, verb in ((ast.Div(), "divided by"), (ast.Mult(), "multiplied with")):
                new = ast.BinOp(value, operator, by)
                yield Edit(value.number, new, slug_of(what, verb, said), f"{what} were {verb} {said}", FAR)
    for operator, word in ((ast.Div(), "halved"), (ast.Mult(), "doubled")):
        new = ast.BinOp(value, operator, ast.Constant(2))
        yield Edit(value.number, new, slug_of(what, word), f"{what} were {word}", FAR)


def _bound_before(target: ast.AST, node: ast.stmt, tree: ast.FunctionDef) -> bool:
    if isinstance(target, ast.Subscript):
        return True
    arguments = {argument.arg for argument in tree.args.args}
    earlier = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return target.id in arguments or any(n.id == target.id and n.lineno < node.lineno for n in earlier)


def of_loop(node: ast.For, tree: ast.FunctionDef) -> Iterator[Edit]:
    last = tree.body[-1]
    if isinstance(last, ast.Return) and node in tree.body:
        new = deepcopy(node)
        new.body.append(deepcopy(last))
        yield Edit(node.number, new, "returns-in-the-loop", "it returned after the first round of the loop")
    if not node.orelse:
        new = ast.For(node.target, ast.Call(ast.Name("reversed", ast.Load()), [ast.Call(
            ast.Name("list", ast.Load()), [node.iter], [])], []), node.body, [])  # fmt: skip
        yield Edit(node.number, new, "loop-backwards", "the loop ran backwards", POSSIBLE)
    if isinstance(node.target, ast.Name) and not isinstance(node.iter, ast.Call):
        items = ast.Call(ast.Name("list", ast.Load()), [node.iter], [])
        for place, word in ((0, "first"), (-1, "last")):
            again = ast.Assign([node.target], ast.Subscript(items, ast.Constant(place), ast.Load()), lineno=node.lineno)
            new = ast.For(node.target, node.iter, [again, *node.body], [])
            words = f"each round of the loop used the {word} of {brief(node.iter, 'the list')}"
            yield Edit(node.number, new, slug_of(word, "for-each", shown(node.target)), words, POSSIBLE)
    yield from _of_order(node)


def _of_order(node: ast.For) -> Iterator[Edit]:
    """A step of a loop that comes later than it should, or earlier: the state is read before it is written."""
    for first, second in itertools.permutations(range(len(node.body)), 2):
        later = first < second
        step, other = node.body[first], node.body[second]
        texts = [brief(one, "") for one in (step, other)]
        steps = all(isinstance(one, (ast.Assign, ast.AugAssign)) for one in (step, other))
        if all(texts) and steps and _meet(step, other):
            new = deepcopy(node)
            new.body.insert(second, new.body.pop(first))
            word = "after" if later else "before"
            words = f"the step {texts[0]} came {word} {texts[1]}"
            yield Edit(node.number, new, slug_of(shown(step), word, shown(other)), words, POSSIBLE)


def _meet(one: ast.stmt, other: ast.stmt) -> bool:
    """Does one of two steps write what the other reads or writes?"""
    written, all_names = [], []
    for step in (one, other):
        target = step.targets[0] if isinstance(step, ast.Assign) else getattr(step, "target", None)
        written.append({node.id for node in ast.walk(target) if isinstance(node, ast.Name)} if target else set())
        all_names.append({node.id for node in ast.walk(step) if isinstance(node, ast.Name)})
    return bool(written[0] & all_names[1] or written[1] & all_names[0])


#: What is done to an array first: (slug, words with its name, the line).
_TO_ARRAYS = (
    ("centred", "the mean of each row of `{0}` were subtracted first", "{0} = _centred({0})"),
    ("unit-length", "each row of `{0}` were brought to length 1 first", "{0} = _unit({0})"),
    ("absolute", "the signs of `{0}` were lost", "{0} = abs({0})"),
    ("first-for-all", "the first of `{0}` stood for all along its first axis", "{0} = _first_for_all({0}, 0)"),
    ("first-of-axis-1", "the first of `{0}` stood for all along its second axis", "{0} = _first_for_all({0}, 1)"),
    ("reversed", "`{0}` came in reverse order", "{0} = _turned_round({0})"),
    ("flipped", "True and False of `{0}` had changed places", "{0} = ~{0}"),
    ("cut", "`{0}` had been cut to whole numbers", "{0} = _cut({0})"),
)
_TO_ANY = (
    ("one-more", "`{0}` were larger by 1", "{0} = {0} + 1"),
    ("one-less", "`{0}` were smaller by 1", "{0} = {0} - 1"),
    ("doubled", "`{0}` were doubled", "{0} = 2 * {0}"),
    ("eightfold", "`{0}` were 8 times as large", "{0} = 8 * {0}"),
    ("unused", "`{0}` were 1", "{0} = 1"),
)
#: Words in the names of a dict's entries that are taken for each other.
_EXCHANGED = (("_1", "_2"), ("self_", "cross_"), ("W_Q", "W_K"), ("W_K", "W_V"), ("gamma", "beta"), ("gate", "up"))


def of_arguments(tree: ast.FunctionDef) -> Iterator[Edit]:
    """All slips of this kind, as lines that stand first in a numbered function."""
    names = [argument.arg for argument in tree.args.args]
    optional = set(names[len(names) - len(tree.args.defaults) :])
    used_as = {name: _uses(name, tree) for name in names}
    for name in names:
        uses = used_as[name]
        if "keyed" in uses:
            for one, other in _EXCHANGED:
                if _has(tree, one) and _has(tree, other):
                    words = f"the entries of `{name}` with {one.strip('_')} and {other.strip('_')} in their names "
                    line = f"{name} = _exchanged({name}, {one!r}, {other!r})"
                    yield _first(tree, line, slug_of("exchanged", one, other), words + "had changed places", POSSIBLE)
            continue
        if "called" in uses:
            continue
        for slug, words, line in _TO_ARRAYS if name not in optional or "array" in uses else ():
            yield _first(tree, line.format(name), slug_of(name, slug), words.format(name), POSSIBLE)
        for slug, words, line in _TO_ANY if "keyed" not in uses else ():
            yield _first(tree, line.format(name), slug_of(name, slug), words.format(name), ODD)
    for one, other in itertools.combinations(names, 2):
        if not {"keyed", "called"} & (used_as[one] | used_as[other]):
            words = f"`{one}` and `{other}` had changed places everywhere"
            yield _first(tree, f"{one}, {other} = {other}, {one}", slug_of("roles-of", one, other), words, POSSIBLE)


def _first(tree: ast.FunctionDef, line: str, slug: str, words: str, rank: int) -> Edit:
    name = line.partition(" ")[0].strip(",")
    optional = name in [argument.arg for argument in tree.args.args[len(tree.args.args) - len(tree.args.defaults) :]]
    guarded = f"if {name} is not None: {line}" if optional else line
    return Edit(tree.args.number, ast.parse(guarded).body[0], slug, words, rank)


def _uses(name: str, tree: ast.FunctionDef) -> set[str]:
    """How an argument is used: as a dict, as a function, as an array."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is(node.value, name):
            text = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            found.add("keyed" if text else "array")
        elif isinstance(node, ast.Call) and _is(node.func, name):
            found.add("called")
        elif isinstance(node, (ast.Attribute, ast.UnaryOp)) and _is(getattr(node, "value", None), name):
            found.add("array")
    return found


def _is(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _has(tree: ast.FunctionDef, word: str) -> bool:
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) and word in n.value for n in ast.walk(tree))
