"""Makes the changes of an expression: an operation, brackets, a comparison, a number, a name or a size."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Collection, Iterator, Sequence
from copy import deepcopy

from .program_edit import (
    FAR,
    LIKELY,
    ODD,
    POSSIBLE,
    Edit,
    Parents,
    Program,
    attribute,
    bound_at,
    call,
    called,
    constant,
    edit,
    is_keyed,
    literal,
    one_off,
    turned,
    whole,
)

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
#: Operations that give numbers, not truth values.
OF_NUMBERS = (*ARITHMETIC, ast.FloorDiv, ast.MatMult, ast.Pow)
#: Operations whose sides cannot be swapped.
ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.MatMult, ast.Pow, ast.Mod)
#: Operations that may replace an operation.
OTHER_OPERATIONS: dict[type, tuple[type, ...]] = {
    **{one: tuple(other for other in ARITHMETIC if other is not one) for one in ARITHMETIC},
    ast.FloorDiv: (ast.Mod, ast.Div),
    ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr, ast.BitXor),
    ast.BitOr: (ast.BitAnd, ast.BitXor),
    ast.MatMult: (ast.Mult,),
    ast.Pow: (ast.Mult,),
}
#: Pairs that are confused most often.
OPPOSITES = ({ast.Mult, ast.Div}, {ast.Add, ast.Sub}, {ast.BitAnd, ast.BitOr})
#: Functions whose parenthesis is not moved.
NO_PARENTHESIS = ("range", "len", "zip", "enumerate", "int", "float")
#: Texts that suggest a mask.
MASKS = re.compile(r"mask|eye|tri[lu]|visible|allow|hidden|keep|valid|same|others?|diag|==|[<>~]")


def of_operation(node: ast.BinOp, program: Program) -> Iterator[Edit]:
    """Yield all changes of one operation."""
    left, right, op = node.left, node.right, type(node.op)
    name = op.__name__.lower()
    for kept, gone in ((left, right), (right, left)):
        simple = isinstance(gone, (ast.Constant, ast.Name))
        in_model = POSSIBLE if op is ast.MatMult or (gone is left and op in ORDERED) else LIKELY
        detail = f"{name}-left-out" if gone is right or op not in ORDERED or op is ast.MatMult else ""
        group = f"{name} {ast.unparse(gone)}" if simple else ""
        yield edit(node, kept, "one-step-too-many", (in_model, LIKELY), detail, group, gone=gone, kept=kept)
    for other in OTHER_OPERATIONS.get(op, ()):
        in_model = LIKELY if {op, other} in OPPOSITES else POSSIBLE
        detail = f"{other.__name__.lower()}-for-{name}"
        new = ast.BinOp(left, other(), right)
        yield edit(node, new, "operation", (in_model, LIKELY), detail, left=left, right=right)
    if op in ORDERED:
        in_model = LIKELY if op is ast.Sub else POSSIBLE
        new = ast.BinOp(right, node.op, left)
        yield edit(node, new, "sides", (in_model, LIKELY), f"sides-of-{name}", left=left, right=right)
    sides = {ast.Mult: (left, right), ast.Add: (left, right), ast.Div: (right,), ast.FloorDiv: (right,)}
    for side in sides.get(op, ()):
        ranks = (POSSIBLE if op in (ast.Mult, ast.Add) else LIKELY, None)
        yield edit(node, ast.BinOp(node, node.op, side), "twice", ranks, f"{name}-twice", side=side)
    if op in (ast.Div, ast.FloorDiv):
        root = ast.BinOp(left, node.op, ast.BinOp(right, ast.Pow(), ast.Constant(0.5)))
        yield edit(node, root, "divides-by-root", (LIKELY, None), right=right)
        yield from _of_shares(node, program.arrays)
    if op is ast.Mult:
        yield from _of_zeroing(node)
    if op is ast.MatMult:
        yield from _of_product(node)
    yield from _of_power(node)
    yield from _of_brackets(node)


def _of_product(node: ast.BinOp) -> Iterator[Edit]:
    left, right = node.left, node.right
    for side, is_left in ((left, True), (right, False)):
        pair = (turned(side), right) if is_left else (left, turned(side))
        new = ast.BinOp(pair[0], node.op, pair[1])
        yield edit(node, new, "not-turned", (POSSIBLE, LIKELY), "turned-before", side=side)


def _of_brackets(node: ast.BinOp) -> Iterator[Edit]:
    """Change a * x + b to a * (x + b), and the other way round; max(a, b) / c to max(a, b / c)."""
    left, right, op = node.left, node.right, node.op
    for inner, outer, is_left in ((left, right, True), (right, left, False)):
        if isinstance(inner, ast.BinOp) and type(inner.op) is not type(op):
            if is_left:
                new = ast.BinOp(inner.left, inner.op, ast.BinOp(inner.right, op, outer))
            else:
                new = ast.BinOp(ast.BinOp(outer, op, inner.left), inner.op, inner.right)
            yield edit(node, new, "brackets", (POSSIBLE, POSSIBLE))
    if isinstance(left, ast.BinOp):
        if isinstance(op, (ast.Add, ast.Sub)) and isinstance(left.op, ast.Div):
            new = ast.BinOp(ast.BinOp(left.left, op, right), left.op, left.right)
            yield edit(node, new, "brackets", (POSSIBLE, None))
        if isinstance(op, ast.Mult) and isinstance(left.op, (ast.Add, ast.Sub)):
            new = ast.BinOp(ast.BinOp(right, op, left.left), left.op, left.right)
            yield edit(node, new, "brackets", (POSSIBLE, None))
    closes = isinstance(left, ast.Call) and left.args and not called(left)[1] and called(left)[0] not in NO_PARENTHESIS
    if closes and isinstance(op, OF_NUMBERS):
        last = ast.BinOp(left.args[-1], op, right)
        new = ast.Call(left.func, [*left.args[:-1], last], left.keywords)
        yield edit(node, new, "parenthesis", (None, POSSIBLE), name=called(left)[0])


def _of_power(node: ast.BinOp) -> Iterator[Edit]:
    """Change d ** 1 / 2 to d ** (1 / 2), which is the root that is usually meant."""
    chain: list[ast.BinOp] = []
    first: ast.expr = node
    while isinstance(first, ast.BinOp) and isinstance(first.op, (ast.Mult, ast.Div)):
        chain.append(first)
        first = first.left
    if not isinstance(first, ast.BinOp) or not isinstance(first.op, ast.Pow):
        return
    if not any(isinstance(each.op, ast.Div) for each in chain):  # integers may grow too large to compute
        return
    exponent = first.right
    for each in reversed(chain):
        exponent = ast.BinOp(exponent, each.op, each.right)
    yield edit(node, ast.BinOp(first.left, first.op, exponent), "power-first", (None, LIKELY))


def _of_shares(node: ast.BinOp, arrays: Sequence[str]) -> Iterator[Edit]:
    """Divide an array's size instead in a floor division such as d_model // n_heads."""
    if not isinstance(node.op, ast.FloorDiv) or isinstance(node.left, ast.BinOp):
        return
    for name, axis in itertools.product(arrays, (-1, 0)):
        size = ast.Subscript(attribute(ast.Name(name, ast.Load()), "shape"), constant(axis), ast.Load())
        if ast.unparse(size) != ast.unparse(node.left):
            yield edit(node.left, size, "another-size", (None, POSSIBLE), whole=node)


def _of_zeroing(node: ast.BinOp) -> Iterator[Edit]:
    """Mask with −∞ instead of multiplying by the mask: that only makes the hidden entries 0, and they still count."""
    for kept, mask in ((node.left, node.right), (node.right, node.left)):
        if MASKS.search(ast.unparse(mask)):
            out = ast.Compare(mask, [ast.Eq()], [ast.Constant(0)])
            low = ast.UnaryOp(ast.USub(), call("float", ast.Constant("inf")))
            tensor = ast.Call(attribute(kept, "masked_fill"), [out, low], [])
            array = ast.Call(attribute(ast.Name("np", ast.Load()), "where"), [out, low, kept], [])
            for new in (tensor, array):
                yield edit(node, new, "out-as-zero", (None, POSSIBLE), mask=mask)


def of_unary(node: ast.UnaryOp, program: Program) -> Iterator[Edit]:
    """Leave out a sign or a negation, or change a negative default."""
    if isinstance(program.parents.get(node), ast.arguments) and whole(node) is not None:
        yield from _of_number(node, whole(node), program, ODD)
    given = isinstance(program.parents.get(node), ast.keyword) or _is_default(node, program.parents)
    in_model = None if given else LIKELY
    kind = "sign" if isinstance(node.op, ast.USub) else "negation"
    yield edit(node, node.operand, "sign", (in_model, LIKELY), kind, operand=node.operand)


def of_transposition(node: ast.Attribute) -> Iterator[Edit]:
    """Leave out a transposition, or replace it by a reshape."""
    if node.attr in ("T", "mT", "H"):
        yield edit(node, node.value, "turned", (LIKELY, LIKELY), "transposition-left-out", of=node.value)
        yield edit(node, call("_reread", node.value), "reshaped", (LIKELY, None), of=node.value)


def of_logic(node: ast.BoolOp) -> Iterator[Edit]:
    """Swap `and` with `or`, leave out a condition, or test for None instead of truth."""
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield edit(node, ast.BoolOp(other, node.values), "or-for-and", (POSSIBLE, LIKELY))
    if isinstance(node.op, ast.Or) and len(node.values) == 2 and isinstance(node.values[0], ast.Name):
        first, default = node.values
        given = ast.Compare(first, [ast.IsNot()], [ast.Constant(None)])
        yield edit(node, ast.IfExp(given, first, default), "falsy-for-none", (None, LIKELY), group="default")
    for index, value in enumerate(node.values):
        rest = node.values[:index] + node.values[index + 1 :]
        new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        yield edit(node, new, "one-condition-too-many", (POSSIBLE, LIKELY), gone=value)


COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
INVERSE = {ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
#: Nodes in which a comparison decides something instead of marking entries.
CONDITIONS = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.Assert)


def of_comparison(node: ast.Compare, program: Program) -> Iterator[Edit]:
    """Yield another comparison, one that is off by one, and marks everywhere or nowhere."""
    op, side = type(node.ops[0]), node.comparators[0]
    if op not in COMPARISONS:
        new = ast.Compare(node.left, [INVERSE[op]()], node.comparators)
        yield edit(node, new, "comparison", (None, LIKELY), "test")
        return
    of_text = isinstance(literal(side), str)
    for other in (ast.NotEq,) if of_text else COMPARISONS:
        if other is op:
            continue
        at_the_edge = {op, other} in ({ast.Lt, ast.LtE}, {ast.Gt, ast.GtE})
        asks = {op, other} & {ast.Eq, ast.NotEq}
        ranks = (POSSIBLE if asks and other is not ast.NotEq else LIKELY, LIKELY if at_the_edge else POSSIBLE)
        detail = "edge" if at_the_edge else "comparison"
        group = f"{op.__name__} {other.__name__}"
        yield edit(node, ast.Compare(node.left, [other()], node.comparators), "comparison", ranks, detail, group)
    if not isinstance(program.parents.get(node), CONDITIONS):
        yield from _of_marking(node, program.parents)
    asks = op in (ast.Eq, ast.NotEq)
    ranks = (None if asks else POSSIBLE, ODD if asks and isinstance(side, ast.Constant) else POSSIBLE)
    for other in one_off(side):
        new = ast.Compare(node.left, node.ops, [other])
        yield edit(node, new, "comparison-off-by-one", ranks, "comparison" if asks else "edge")


def _of_marking(node: ast.Compare, parents: Parents) -> Iterator[Edit]:
    """Mark all entries or none instead of some, unless that would fill an array with one constant."""
    statement = parents.get(parents.get(node))
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
        return
    for op, kind in ((ast.Eq(), "marks-too-few"), (ast.NotEq(), "marks-too-many")):
        yield edit(node, ast.Compare(node.left, [op], [node.left]), kind, (None, LIKELY))


# ---------------------------------------------------------------------------------------------------- numbers, names


def of_constant(node: ast.Constant, program: Program) -> Iterator[Edit]:
    """Change a number, or swap True and False."""
    value, parent = node.value, program.parents.get(node)
    default = _defaulting(node, program.parents)
    if isinstance(value, bool):
        of_keyword = isinstance(parent, ast.keyword)
        fields = {"argument": parent.arg if of_keyword else default, "option": not value, "now": value}
        detail = "default-flag" if default else "keyword-flag" if of_keyword else "flag"
        yield edit(node, ast.Constant(not value), "flag", (LIKELY if default else None, LIKELY), detail, **fields)
        return
    if not isinstance(value, (int, float)) or (isinstance(parent, ast.keyword) and parent.arg in ("axis", "dim")):
        return
    asked = isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.Eq, ast.NotEq))
    rank = ODD if asked and parent.left is not node else POSSIBLE  # with another number, an equality hardly ever holds
    yield from _of_number(node, value, program, rank)


def _of_number(node: ast.expr, value: float, program: Program, rank: int) -> Iterator[Edit]:
    """Change a number. rank: how likely that is in a student's program."""
    parent, default = program.parents.get(node), _defaulting(node, program.parents)
    below_0 = isinstance(program.parents.get(parent), ast.arguments)
    for option in _other_numbers(value, parent):
        infinite = math.isinf(option)
        new = call("float", ast.Constant(str(option))) if infinite else constant(option)
        in_student = LIKELY if infinite and rank == POSSIBLE else rank  # for a large number meant as infinity
        fields = {"argument": default, "option": f"{option:g}", "now": f"{value:g}"}
        ranks = (None if infinite or below_0 else POSSIBLE, in_student)
        yield edit(node, new, "number", ranks, "default-number" if default else "number", **fields)


def _other_numbers(value: float, parent: ast.AST | None) -> list[float]:
    options: set[float] = {value + 1, value - 1, 0, 1, 2, -1, 0.5, 2 * value, value / 2, -value, 1 - value}
    if isinstance(value, int):
        options |= {3, 4} | ({8, 16, 32, 64} if isinstance(parent, (ast.BinOp, ast.keyword)) else set())
    else:
        options |= {value * 10, value / 10, value * 100, value / 100, value**2}
    if value and abs(value) < 1e-2:
        options |= {10.0**power for power in range(-12, -1)}
    if abs(value) > 30:
        options |= {math.inf, -math.inf, 10_000.0, 1e30}
    return sorted({float(o) if isinstance(value, float) else o for o in options} - {value}, key=abs)


def of_given(program: Program) -> Iterator[Edit]:
    """Use an argument's default always, whatever is passed."""
    arguments = program.tree.args
    positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    pairs = zip(positional, arguments.defaults, strict=True)
    numbers = {argument.arg: literal(default) for argument, default in pairs}
    for node in ast.walk(program.tree):
        value = numbers.get(node.id) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            fields = {"name": node.id, "value": f"{value:g}"}
            yield edit(node, constant(value), "not-used", (POSSIBLE, None), group=node.id, **fields)


def _is_default(node: ast.AST, parents: Parents) -> bool:
    parent = parents.get(node)
    return isinstance(parent, ast.arguments) or isinstance(parents.get(parent), ast.arguments)


def _defaulting(default: ast.AST, parents: Parents) -> str:
    """The argument that has this default, or ""."""
    arguments = parents.get(default)
    if isinstance(arguments, ast.arguments):
        for names, defaults in ((arguments.args, arguments.defaults), (arguments.kwonlyargs, arguments.kw_defaults)):
            if default in defaults:
                return names[defaults.index(default) - len(defaults)].arg
    return ""


def of_name(node: ast.Name, program: Program) -> Iterator[Edit]:
    """Use another name."""
    parents, parent = program.parents, program.parents.get(node)
    if node.id not in program.names or (isinstance(parent, ast.Call) and parent.func is node):
        return
    bound, of_dict = bound_at(node, parents), is_keyed(parent)
    keyed = {above.value.id for above in parents.values() if is_keyed(above) and isinstance(above.value, ast.Name)}
    texts = {"_", *(_literals(parents) if isinstance(parent, ast.BinOp) else ())}
    for other in program.names:
        if other == node.id or other not in bound or other in texts:
            continue
        new, in_model = ast.Name(other, ast.Load()), None if of_dict or other in keyed else POSSIBLE
        fields = {"other": other, "name": node.id}
        yield edit(node, new, "name", (in_model, POSSIBLE), group=f"{node.id} {other}", **fields)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.MatMult):
            yield edit(node, attribute(new, "mT"), "name-turned", (in_model, None), **fields)


def _literals(parents: Parents) -> Iterator[str]:
    """The names of literal tuples, lists and texts: a product with a large number would fill the memory with copies."""
    for node in parents:
        named = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if named and (isinstance(node.value, (ast.Tuple, ast.List)) or isinstance(literal(node.value), str)):
            yield node.targets[0].id


# -------------------------------------------------------------------------------------------- one more step on a value

#: Changes that make a number larger or smaller.
OF_SIZE = ("no-root", "no-square", "no-complement", "not-doubled", "not-halved")
#: Changes that are not tried on an axis length, because a slice that ends past the axis is as good as one that ends
#: there.
LARGER = ("no-square", "not-doubled")
#: Nodes to which no missing step is added.
NO_VALUES = (ast.Tuple, ast.List, ast.Slice, ast.Starred, ast.Compare, ast.ListComp, ast.GeneratorExp, ast.Constant)


def steps_on(node: ast.expr) -> Iterator[tuple[str, str, ast.expr]]:
    """Yield (kind, detail, expression) for each additional step on a value, which a student may have forgotten."""
    for kind, new in (
        ("not-turned", attribute(node, "mT")),
        ("no-root", ast.BinOp(node, ast.Pow(), ast.Constant(0.5))),
        ("no-square", ast.BinOp(node, ast.Pow(), ast.Constant(2))),
        ("no-sign", ast.UnaryOp(ast.USub(), node)),
        ("not-inverted", ast.UnaryOp(ast.Invert(), node)),
        ("no-complement", ast.BinOp(ast.Constant(1), ast.Sub(), node)),
        ("not-doubled", ast.BinOp(node, ast.Mult(), ast.Constant(2))),
        ("not-halved", ast.BinOp(node, ast.Div(), ast.Constant(2))),
        ("no-abs", call("abs", node)),
    ):
        yield kind, kind, new
    yield from zip(("off-by-one",) * 2, ("one-less", "one-more"), one_off(node), strict=True)


def of_value(node: ast.expr, program: Program, limits: bool = False) -> Iterator[Edit]:
    """Add a step to a value in a student's program.

    limits: whether the value is only compared; changes of its size are then not tried.
    """
    parent = program.parents.get(node)
    is_function = isinstance(parent, ast.Call) and parent.func is node
    if isinstance(node, NO_VALUES) or isinstance(parent, (ast.Attribute, ast.keyword)) or is_function:
        return
    simple, of_shape = isinstance(node, ast.Name), getattr(getattr(node, "value", None), "attr", None) == "shape"
    rank = ODD if simple else POSSIBLE
    in_exp = isinstance(parent, ast.Call) and called(parent)[0] == "exp"
    held_against = isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))
    for kind, detail, new in steps_on(node):
        if kind == "not-inverted" and isinstance(node, ast.BinOp) and isinstance(node.op, OF_NUMBERS):
            continue
        if (limits and kind in OF_SIZE) or (kind in LARGER and isinstance(node, ast.Subscript) and of_shape):
            continue
        likely = (kind == "no-sign" and in_exp) or (kind == "no-abs" and held_against)
        kind = "not-absolute" if kind == "no-abs" and held_against else kind
        yield edit(node, new, kind, (None, LIKELY if likely else rank), detail)
    for number in program.numbers:
        if not (simple and node.id == number):
            for op, detail in ((ast.Mult(), "no-factor"), (ast.Div(), "no-divisor")):
                new = ast.BinOp(node, op, ast.Name(number, ast.Load()))
                yield edit(node, new, "no-factor", (None, rank), detail, number=number)


def of_result(value: ast.expr, what: ast.expr, program: Program) -> Iterator[Edit]:
    """Add an unnecessary step to the result of a line of the model solution. what: the name of that result."""
    if not isinstance(value, (ast.BinOp, ast.Call)):
        return
    if isinstance(value, ast.Call) and value.args and called(value)[0] and not called(value)[1]:
        twice = deepcopy(value)
        twice.args[0] = deepcopy(value)
        yield edit(value, twice, "call-twice", (POSSIBLE, None), name=called(value)[0], what=what)
    cut = ast.BinOp(value, ast.Mult(), ast.Compare(value, [ast.Gt()], [ast.Constant(0)]))
    yield edit(value, cut, "negatives-cut", (POSSIBLE, None), what=what)
    ranks = {"no-abs": POSSIBLE, "no-sign": POSSIBLE, "not-doubled": FAR, "not-halved": FAR}
    for kind, _, new in steps_on(value):
        yield edit(value, new, kind, (ranks.get(kind), None), f"result-{kind}", what=what)
    for name in program.sizes:
        root = ast.BinOp(_size(name), ast.Pow(), ast.Constant(0.5))
        for by, said in ((root, f"√{name}"), (_size(name), name)):
            for operator, verb in ((ast.Div(), "divided by"), (ast.Mult(), "multiplied with")):
                fields = {"what": what, "verb": verb, "size": said}
                yield edit(value, ast.BinOp(value, operator, by), "result-by-size", (FAR, None), **fields)


# -------------------------------------------------------------------------------------------------------------- sizes

NUMBERS = (*range(1, 13), 15, 16, 20, 24, 25, 32, 36, 48, 49, 50, 64, 81, 96, 100, 128, 256, 384, 512, 768, 1024)
FILLS = (0.0, 1e-9, -1.0, -5.0, -9.0, -10.0, -20.0, -30.0, -50.0, -99.0, -100.0, -999.0, -1e3, -1e4, -1e5, -1e6, -1e9)


def sizes_in(program: Program) -> set[str]:
    """Return the names of sizes: arguments that are sizes or counts, and values computed from shapes."""
    arguments = (argument.arg for argument in program.tree.args.args)
    found = {name for name in arguments if name in program.sizes or name.startswith("n_")}
    for node in ast.walk(program.tree):
        if not isinstance(node, ast.Assign):
            continue
        reads = any(
            (isinstance(part, ast.Attribute) and part.attr == "shape")
            or (isinstance(part, ast.Call) and called(part)[0] in ("len", "size", "ndim"))
            or (isinstance(part, ast.Name) and part.id in found)
            for part in ast.walk(node.value)
        )
        makes = any(
            isinstance(part, (ast.MatMult, ast.Call)) and not _is_size_call(part) for part in ast.walk(node.value)
        )
        if reads and not makes:
            found |= {part.id for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name)}
    return found


def _is_size_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and called(node)[0] in ("len", "size", "min", "max", "int", "sqrt")


def is_a_size(node: ast.AST, parents: Parents) -> bool:
    """Return whether it is a single size under a root or as a divisor."""
    shape = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    name = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    length = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
    if not (shape or name or length):
        return False
    parent = parents.get(node)
    if isinstance(parent, ast.Call) and node in parent.args:
        return called(parent)[0] == "sqrt"
    divides = isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Div, ast.FloorDiv))
    return isinstance(parent, ast.BinOp) and (isinstance(parent.op, ast.Pow) or (divides and parent.right is node))


def _size(words: str) -> ast.Call:
    return call("_size", ast.Constant(words))


def of_size(node: ast.expr, program: Program, named: Collection[str]) -> Iterator[Edit]:
    """Use another size or a number. named: names of sizes; any other name is only replaced by sizes."""
    sizes = program.sizes
    for words in sizes:
        if words != ast.unparse(node):  # two sizes of one name could not be told apart
            yield edit(node, _size(words), "size", (LIKELY, None), other=words, now=node)
    if isinstance(node, ast.Name) and node.id not in named:
        return
    products = [f"{one}*{other}" for one, other in itertools.combinations(sizes, 2)]
    quotients = [f"{one}/{by}" for one, by in itertools.product(sizes, ("h", "g")) if by in sizes and one != by]
    for words in (*products, *quotients):
        ranks = (POSSIBLE if "*" in words else ODD, None)
        yield edit(node, _size(words), "size", ranks, other=words.replace("*", "·"), now=node)
    for sign, new in zip("-+", one_off(node), strict=True):
        yield edit(node, new, "size-off-by-one", (POSSIBLE, None), sign=sign, now=node)
    for number in NUMBERS:
        yield edit(node, ast.Constant(number), "number-for-size", (ODD, None), number=number, now=node)


def of_infinity(node: ast.expr) -> Iterator[Edit]:
    """Use other numbers for −∞, however it is written: -np.inf, -math.inf, float("-inf")."""
    text = ast.unparse(node) if isinstance(node, (ast.UnaryOp, ast.Call, ast.Attribute)) else ""
    lowest = isinstance(node, ast.Attribute) and node.attr == "min" and "finfo(" in text
    if lowest or text in ("-np.inf", "-math.inf", "-torch.inf", "float('-inf')"):
        for fill in FILLS:
            detail = "number-for-infinity" if fill else "zero-for-infinity"
            yield edit(node, constant(fill), "for-infinity", (LIKELY, None), detail, number=f"{fill:g}")
