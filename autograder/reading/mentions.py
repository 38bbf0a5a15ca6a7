"""What one statement mentions: names, library calls by their dotted names, and texts.

Each node is visited once, whatever its depth, and no node calls itself: strangers write these trees.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .syntax import bound_here

#: Stands before the first dot where what stands there is no name of the notebook.
UNKNOWN = "?"
#: A text that is a name or a dotted name, as Python, `resolve_name` and torch's own tables write it.
NAME = re.compile(r"\w+(?:(?:\.|::?)\w+)*")
#: Of a dotted name that another stands for: so many parts from its end, and so many letters of each.
PARTS_CAP, LETTERS_CAP = 10, 60
#: A name for a name for a name: followed so far.
HOPS_CAP = 5
#: Methods that put something into what they are called on.
MUTATORS = frozenset(("append", "appendleft", "add", "extend", "insert", "register", "setdefault", "update", "__ior__"))
#: Calls that give a meaning to a name anywhere, and places where names live.
SETTERS = frozenset(("setattr", "__setattr__", "setitem", "__setitem__"))
NAMESPACES = frozenset(("__dict__", "__globals__", "f_globals", "f_locals", "f_builtins", "user_ns"))
SCOPES = frozenset(("globals", "locals", "vars"))
#: Calls that run a text, as plain names: `model.eval` and `re.compile` are others.
RUNNERS = frozenset(("exec", "eval", "compile"))
#: Parts of calls that run a text in the notebook, or write one that it can import.
SHELL = frozenset(
    ("run_cell", "run_cell_async", "run_line_magic", "run_cell_magic", "run_code", "runsource", "runcode")
)
WRITERS = frozenset(("CompilationUnit", "run_module", "run_path", "write", "write_text", "writelines"))
#: Calls and parts that reach a library by a text.
LOOKUPS = NAMESPACES | RUNNERS | {
    "getattr", "getattr_static", "vars", "globals", "locals", "__import__", "import_module", "__dict__",
    "__getattribute__", "__getattr__", "attrgetter", "methodcaller", "resolve_name", "locate", "find_spec",
    "find_loader", "load_module", "module_from_spec", "getmembers", "getmembers_static", "_jit_get_operation",
    "loads", "Unpickler", "find_class", "get_objects", "get_referents", "get_referrers", "call_function", "call_method",
    "get_testing_overrides", "get_overridable_functions", "pythonapi", "_importer", "resolve", "get_field",
    "resolve_dotted_attribute",
}  # fmt: skip

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
#: Nodes of one statement, with the local names of each scope: many times what a whole unit holds.
WORK_CAP = 3_000_000


class Tangled(Exception):
    """Code that would take too long to read."""


@dataclass
class Mentions:
    """What a statement mentions.

    names: the notebook's names that it reads. dotted: what it reads, such as "torch.nn.functional.gelu", by the names
        that it itself imports or assigns them to; the first part may be a name of the notebook's.
    texts: its string constants, apart from the messages of exceptions, and from docstrings that are more than a name.
    alters: names whose objects it changes, or that it binds out of sight. made: attributes and methods of its own.
    sets: puts something where names live. work: what reading it took, in nodes.
    """

    names: set[str] = field(default_factory=set)
    dotted: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    alters: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    sets: bool = False
    work: int = 0

    @property
    def parts(self) -> Iterator[str]:
        return (part for dotted in self.dotted for part in dotted.split("."))

    @property
    def looks_up(self) -> bool:
        """Whether it reaches something by its name as text."""
        return any(part in LOOKUPS for part in self.parts) or any("sys.modules" in dotted for dotted in self.dotted)

    @property
    def runs_text(self) -> bool:
        """Whether it runs a text as a program."""
        return self._runs or any(part in SHELL or part in WRITERS for part in self.parts)

    @property
    def rebinds(self) -> bool:
        """Whether it may give a meaning to any name."""
        return self.sets or self._runs or any(part in SHELL for part in self.parts)

    @property
    def _runs(self) -> bool:
        return any(dotted.removeprefix("builtins.") in RUNNERS for dotted in self.dotted)


def aliases(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Name -> dotted name that it stands for, by what `node` itself imports or assigns."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"
            else:
                first = alias.name.split(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first
    elif isinstance(node, ast.Assign):
        yield from _alias(node.targets, node.value)
    elif isinstance(node, (ast.NamedExpr, ast.AnnAssign)) and node.value is not None:
        yield from _alias([node.target], node.value)
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        pairs = [*zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True)]
        for arg, default in (*pairs, *zip(node.kwonlyargs, node.kw_defaults, strict=True)):
            if default is not None:
                yield from _alias([ast.Name(arg.arg)], default)


def _alias(targets: Iterable[ast.expr], value: ast.expr) -> Iterator[tuple[str, str]]:
    root, parts, _ = path(value)
    if isinstance(root, ast.Name):
        dotted = ".".join(part[:LETTERS_CAP] for part in (root.id, *parts[-PARTS_CAP:]))
        yield from ((target.id, dotted) for target in targets if isinstance(target, ast.Name) and target.id != root.id)


def resolved(dotted: str, meaning: Mapping[str, str]) -> str:
    """A dotted name with its first part followed through the aliases in `meaning`."""
    for _ in range(HOPS_CAP):
        root, dot, rest = dotted.partition(".")
        stands_for = meaning.get(root, root)
        if stands_for.partition(".")[0] == root:
            return stands_for + dot + rest
        dotted = stands_for + dot + rest
    return dotted


def path(node: ast.expr) -> tuple[ast.expr, list[str], list[ast.AST]]:
    """What a chain of attributes begins with, its parts in order, and nodes beside the chain.

    `getattr(x, "part")`, `vars(x)["part"]` and `x.__dict__["part"]` are links of the chain as well.
    """
    parts: list[str] = []
    beside: list[ast.AST] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
            continue
        if isinstance(node, ast.Call) and _named(node.func) == "getattr" and len(node.args) > 1:
            part, inside, others = _text(node.args[1]), node.args[0], [node.func, *node.args[2:]]
        elif isinstance(node, ast.Subscript) and _namespace(node.value) is not None:
            part, inside, others = _text(node.slice), _namespace(node.value), [ast.Name("vars", ast.Load())]
        else:
            part = ""
        if not part:
            return node, parts[::-1], beside
        parts.append(part)
        beside += others
        node = inside


def _namespace(node: ast.expr) -> ast.expr | None:
    """x in `vars(x)` or `x.__dict__`."""
    if isinstance(node, ast.Call) and _named(node.func) == "vars" and len(node.args) == 1:
        return node.args[0]
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return node.value
    return None


def _is_scope(node: ast.AST) -> bool:
    """Whether it is `globals()` or the like."""
    return isinstance(node, ast.Call) and _named(node.func) in SCOPES


def _bound(node: ast.AST) -> Iterator[str]:
    return (name for child in ast.walk(node) for name in bound_here(child))


def _scope_of(body: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names that a function with this body binds, and those that it declares to be the notebook's."""
    bound: set[str] = set()
    declared: set[str] = set()
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Global):
            declared.update(node.names)
            continue
        bound.update(bound_here(node))
        if isinstance(node, COMPREHENSIONS):
            walruses = (child for child in ast.walk(node) if isinstance(child, ast.NamedExpr))
            bound.update(child.target.id for child in walruses)
        elif not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))
    return bound - declared, declared


def _named(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _texts(node: ast.Constant) -> Iterator[str]:
    """The text of a constant; of bytes, which are run and unpickled too, their words as well."""
    text = node.value.decode(errors="replace") if isinstance(node.value, bytes) else _text(node)
    if text:
        yield text
    if isinstance(node.value, bytes):
        yield from re.findall(r"\w+", text)


def mentions(statement: ast.AST) -> Mentions:
    """What `statement` mentions."""
    return _Reader(statement).found


class _Reader:
    def __init__(self, statement: ast.AST) -> None:
        self.found = Mentions()
        self.meaning: dict[str, str] = {}
        for node in ast.walk(statement):
            self.meaning.update(aliases(node))
        #: nodes to visit, with the names that are local where they stand
        self.waiting: list[tuple[ast.AST, frozenset[str]]] = [(statement, frozenset())]
        while self.waiting:
            node, local = self.waiting.pop()
            self.found.work += 1
            if self.found.work > WORK_CAP:
                raise Tangled
            self._visit(node, local)

    def _later(self, nodes: Iterable[ast.AST | None], local: frozenset[str]) -> None:
        self.waiting.extend((node, local) for node in nodes if node is not None)

    def _visit(self, node: ast.AST, local: frozenset[str]) -> None:
        found = self.found
        if isinstance(node, FUNCTIONS):
            self._function(node, local)
        elif isinstance(node, COMPREHENSIONS):
            first, *others = node.generators
            inner = self._scope(local, (name for each in node.generators for name in _bound(each.target)))
            self._later([first.iter], local)
            self._later([first.target, *first.ifs, *others], inner)
            self._later((getattr(node, part, None) for part in ("elt", "key", "value")), inner)
        elif isinstance(node, ast.Constant):
            found.texts.update(_texts(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            doc = _text(node.value)
            found.texts.update([doc] if NAME.fullmatch(doc) else ())  # nobody is told anything by a mere name
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            told = (arg for arg in node.exc.args if not isinstance(arg, ast.Constant))
            self._later([node.exc.func, *told, *node.exc.keywords, node.cause], local)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.dotted.update(origin for _, origin in aliases(node))
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            self._chain(node, local)
        else:
            if isinstance(node, ast.ClassDef):
                fields = (getattr(child, "target", child) for child in node.body)
                found.made.update(name for each in fields for name in bound_here(each))
            elif isinstance(node, ast.MatchClass):
                found.dotted.update(f"{UNKNOWN}.{attribute}" for attribute in node.kwd_attrs)
            elif isinstance(node, ast.Call):
                _, parts, _ = path(node)
                if parts:  # getattr(…, "…")
                    self._chain(node, local)
                    return
                self._call(node, local)
            self._later(ast.iter_child_nodes(node), local)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, local: frozenset[str]) -> None:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        body = node.body if isinstance(node.body, list) else [node.body]
        bound, declared = _scope_of(body)
        inner = self._scope(local - declared, (*(arg.arg for arg in every if arg), *bound))
        self._later([*arguments.defaults, *arguments.kw_defaults, *(arg.annotation for arg in every if arg)], local)
        if not isinstance(node, ast.Lambda):
            self._later([*node.decorator_list, node.returns], local)
        self._later(body, inner)

    def _scope(self, local: frozenset[str], names: Iterable[str]) -> frozenset[str]:
        inner = local.union(names)
        self.found.work += len(inner)
        return inner

    def _call(self, node: ast.Call, local: frozenset[str]) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else _named(function)
        owner = function.value if isinstance(function, ast.Attribute) else node
        if name in SETTERS:
            everywhere = (arg for arg in node.args if _named(arg) not in local and not isinstance(arg, ast.Constant))
            self.found.sets |= any(everywhere) or _is_scope(owner)
        elif name in MUTATORS:
            self._altered(owner, local)
            self.found.sets |= _is_scope(owner)
            self.found.alters.update(keyword.arg for keyword in node.keywords if keyword.arg)

    def _chain(self, node: ast.expr, local: frozenset[str]) -> None:
        """A name, an attribute or an item, read or written."""
        stored = not isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))
        if stored and not isinstance(node, ast.Name):
            self._altered(node, local)
            if isinstance(node, ast.Attribute):
                self._later([node.value], local)
                return
        root, parts, beside = path(node)
        self._later(beside, local)
        if not isinstance(root, ast.Name):
            if parts:
                self.found.dotted.add(".".join((UNKNOWN, *parts)))
            self._later(ast.iter_child_nodes(root) if root is node else [root], local)
            return
        if not stored or parts:
            self._read(root.id, parts, local)

    def _read(self, name: str, parts: list[str], local: frozenset[str]) -> None:
        if name not in local:
            self.found.names.add(name)
        elif name not in self.meaning:
            self.found.dotted.add(".".join((UNKNOWN, *parts)))
            return
        self.found.dotted.add(".".join((resolved(name, self.meaning), *parts)))

    def _altered(self, node: ast.expr, local: frozenset[str]) -> None:
        """What a change of `node`, an attribute, an item or the object of a method, gives a meaning to."""
        key = node.attr if isinstance(node, ast.Attribute) else _text(getattr(node, "slice", node))
        parts: set[str] = set()
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            parts.add(node.attr if isinstance(node, ast.Attribute) else "")
            node = node.value
        if isinstance(node, ast.Name) and node.id in local and node.id not in self.meaning:
            self.found.made.add(key)
            return
        self.found.alters.update(filter(None, (key, _named(node))))
        self.found.sets |= not key and (_is_scope(node) or bool(parts & NAMESPACES))
