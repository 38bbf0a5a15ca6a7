"""Slips in a statement: a step left out, a loop that ends too early, a condition that always holds."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from copy import deepcopy

from .edit import FAR, POSSIBLE, Edit, brief, called, change, shown, slug_of


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
