"""Does an answer use a library that does the whole exercise? Read from the syntax tree, never by running it.

A call counts where the answer leads to it; a text that names one counts where something is looked up by a text, or
where texts are run. Comments, docstrings, labels, and checks beside the answer do not count.

The search starts with the statements that define the answer and follows, by name, the student's others that it uses.
Statements that may give a meaning to any name are always read, and so is the answer's cell where nothing else seems
to define it. A determined student can hide a call from this; the point is to tell an honest one.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .mentions import NAME, UNKNOWN, WORK_CAP, Mentions, Tangled, aliases, mentions, resolved
from .syntax import Unread, bound_names, escapes, read, statements

__all__ = ["Survey", "Tangled", "find_forbidden"]

PLAIN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: A name that nobody gives to anything else by chance, such as scaled_dot_product_attention or LayerNorm.
TELLING = re.compile(r"[^_]_[^_]|[a-z][A-Z]")
#: The notebook itself, as a module that it may import.
NOTEBOOK = "__main__."
#: Letters of a name that a message quotes.
QUOTED = 100


@dataclass(frozen=True)
class Rules:
    """Forbidden names, sorted by how they are recognised."""

    bare: frozenset[str]
    dotted: tuple[str, ...]
    last: frozenset[str]
    telling: frozenset[str]

    @classmethod
    def of(cls, forbidden: Iterable[str]) -> Rules:
        names = list(forbidden)
        dotted = tuple(name for name in names if "." in name)
        last = frozenset(name.rpartition(".")[2] for name in dotted)
        return cls(frozenset(names) - set(dotted), dotted, last, frozenset(filter(TELLING.search, last)))

    def match(self, dotted: str) -> bool:
        """A module matches at the front ("scipy" in "scipy.special.softmax"), a call anywhere between dots."""
        root, *parts = dotted.split(".")
        return root in self.bare or self.inside(dotted) or (root == "torch" and not self.last.isdisjoint(parts))

    def inside(self, dotted: str) -> bool:
        """Whether a call is named behind the first dot, or with what stands before it."""
        telling = not self.telling.isdisjoint(dotted.split(".")[1:])
        return telling or any(f".{name}." in f".{dotted}." for name in self.dotted)


class Survey:
    """What all cells of one submission define and mention. Reading them takes time, so it is done once.

    sources: the student's cells. given: the course's. unread: those of the student's that may run, but cannot be read.
    tangled: whether reading took too long; nothing is known then.
    """

    def __init__(self, sources: Sequence[str], given: Sequence[str] = ()) -> None:
        self.work = 0
        self.cells: dict[str, list[ast.stmt]] = {}
        self.unread: list[str] = []
        self.tangled = False
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.meaning: dict[str, str] = {}
        self.stars: set[str] = set()
        #: names that the student gives a meaning of their own, and attributes
        self.own: set[str] = set()
        self.made: set[str] = set()
        self.rebinding: list[ast.stmt] = []
        self.known = set(dir(builtins))
        self._mentions: dict[int, Mentions] = {}
        self._texts: dict[str, list[ast.stmt]] = {}
        self._found: dict[tuple[int, Rules], str | None] = {}
        self._reaches: dict[str, set[str]] = {}
        try:
            self._survey(sources)
            if self.stars:
                self.known.update(name for source in given for node in statements(source) for name in bound_names(node))
        except Tangled:
            self.tangled = True

    def _survey(self, sources: Sequence[str]) -> None:
        for source in sources:
            self.cells[source] = [each for node in self._read(source) for each in _one_by_one(node)]
        nodes = [node for body in self.cells.values() for node in body]
        for node in nodes:
            self._bind(node)
        loud: set[str] = set()
        changes: dict[str, set[str]] = {}
        for node in nodes:
            mentioned = self.mentions(node)
            self.made |= mentioned.made
            altered = mentioned.alters & self.definitions.keys()
            for name in altered:
                self.definitions[name].append(node)
            if isinstance(node, PLAIN):
                changes.setdefault(node.name, set()).update(altered, bound_names(node))
                loud.update([node.name] if mentioned.rebinds else ())
        for node in nodes:
            if not isinstance(node, PLAIN) or node.decorator_list:
                self._run(node, changes, loud)

    def _run(self, node: ast.stmt, changes: dict[str, set[str]], loud: set[str]) -> None:
        """Note what a statement that is no mere definition may change by way of the functions that it names."""
        mentioned = self.mentions(node)
        if mentioned.rebinds or not loud.isdisjoint(mentioned.names):
            self.rebinding.append(node)
        for function in mentioned.names & changes.keys():
            others = changes[function] - {function}
            self.spend(len(others))
            for name in others:
                self.definitions[name].append(node)

    def _read(self, source: str) -> list[ast.stmt]:
        try:
            return read(source)
        except Unread:
            self.unread.append(source)
            return []

    def _bind(self, node: ast.stmt) -> None:
        names = set(bound_names(node))
        for name in names:
            self.definitions.setdefault(name, []).append(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if "*" in names:
                self.stars.add(getattr(node, "module", None) or "")
        else:
            itself = self.mentions(node).names
            self.own.update(name for name in names if isinstance(node, PLAIN) or name not in itself)
        for child in _outside_functions(node):
            self.meaning.update(aliases(child))

    def mentions(self, node: ast.stmt) -> Mentions:
        """What a statement mentions, read once."""
        if id(node) not in self._mentions:
            self._mentions[id(node)] = mentions(node)
            self.spend(self._mentions[id(node)].work)
        return self._mentions[id(node)]

    def leads_to(self, node: ast.stmt) -> set[str]:
        """The notebook's names that a statement reads, as names or as attributes of the notebook."""
        mentioned = self.mentions(node)
        dotted = (resolved(name, self.meaning) for name in mentioned.dotted if "." in name or name in self.meaning)
        return mentioned.names | {name.split(".")[1] for name in dotted if name.startswith(NOTEBOOK)}

    def spend(self, work: int) -> None:
        """Count what reading takes, in nodes. Raises Tangled."""
        self.work += work
        if self.work > WORK_CAP:
            raise Tangled

    def written(self, text: str) -> list[ast.stmt]:
        """The statements in a text that is run as a program."""
        if text not in self._texts:
            self.spend(len(text) * (1 + escapes(text)))
            try:
                self._texts[text] = read(text)
            except Unread:
                raise Tangled from None
        return self._texts[text]

    def uses(self, function: str, name: str) -> bool:
        """Whether `function` leads to `name`, by way of the student's other cells or at once.

        A function that no cell defines, so far as can be read, may use anything.
        """
        return self.tangled or function not in self.definitions or name in self._reached(function)

    def _reached(self, function: str) -> set[str]:
        if function not in self._reaches:
            walk = Walk(self, [function])
            for _ in walk.statements():
                pass
            self._reaches[function] = walk.names
        return self._reaches[function]

    def uses_forbidden(self, node: ast.stmt, rules: Rules) -> str | None:
        """What `node` itself mentions of the forbidden, or None."""
        key = id(node), rules
        if key not in self._found:
            mentioned = self.mentions(node)
            uses = (self._use(dotted, mentioned.names, rules) for dotted in sorted(mentioned.dotted))
            self._found[key] = next(filter(None, uses), None)
        return self._found[key]

    def _use(self, name: str, names: Collection[str], rules: Rules) -> str | None:
        """The forbidden call that `name` stands for, or None. names: those of the notebook's that stand beside it."""
        dotted = resolved(name, self.meaning).removeprefix(NOTEBOOK)
        root, *parts = dotted.split(".")
        if root == UNKNOWN or (root in self.own and root not in self.meaning):
            return dotted if rules.inside(dotted) and parts[-1] not in self.made else None
        if rules.match(dotted):
            return dotted
        first = name.partition(".")[0]
        modules = self.stars if first in names and first not in self.meaning and first not in self.known else ()
        return next((found for found in (f"{module}.{name}" for module in modules) if rules.match(found)), None)


class Walk:
    """The statements that one exercise reaches, each once."""

    def __init__(
        self, survey: Survey, names: Iterable[str], nodes: Iterable[ast.stmt] = (), without: Iterable[str] = ()
    ) -> None:
        self.survey = survey
        self.names: set[str] = set()
        self._without = set(without)
        self._seen: set[int] = set()
        self._names = list(names)
        self._nodes = list(nodes)

    def statements(self) -> Iterator[ast.stmt]:
        while self._names or self._nodes:
            if self._nodes:
                node = self._nodes.pop()
                if id(node) not in self._seen:
                    self._seen.add(id(node))
                    self._names.extend(self.survey.leads_to(node) - self.names)
                    yield node
                continue
            name = self._names.pop()
            if name not in self.names and name not in self._without:
                self.names.add(name)
                self._nodes.extend(self.survey.definitions.get(name, ()))

    def add(self, nodes: Iterable[ast.stmt]) -> None:
        self._nodes.extend(nodes)


def find_forbidden(
    function: str,
    sources: Sequence[str] | Survey,
    forbidden: Sequence[str],
    others: Collection[str] = (),
    answer: str | None = None,
) -> str | None:
    """The first forbidden name that `function` reaches, or None.

    sources: the student's cells, all of them, in order, or a survey of them.
    forbidden: modules, such as "scipy", dotted calls by their last parts, such as "nn.MultiheadAttention", or names of
        functions that the notebook gives.
    others: functions that are not followed, since they are replaced where this one is asked.
    answer: the source of the cell of `function`; without it any of `sources` may be.
    Raises Tangled where reading would take too long.
    """
    survey = sources if isinstance(sources, Survey) else Survey(sources)
    rules = Rules.of(forbidden)
    if survey.tangled or answer in survey.unread:
        raise Tangled
    found = _search(function, survey, rules, others, answer) or _in_unread(survey.unread, rules)
    return found.removeprefix(f"{UNKNOWN}.")[-QUOTED:] if found else None


def _search(function: str, survey: Survey, rules: Rules, others: Collection[str], answer: str | None) -> str | None:
    nodes = list(survey.rebinding)
    if function not in survey.definitions:
        cells = survey.cells.values() if answer is None else [survey.cells.get(answer, [])]
        nodes += (node for cell in cells for node in cell)
    walk = Walk(survey, [function], nodes, set(others) - {function})
    texts: set[str] = set()
    looks_up = runs_text = False
    while True:
        fresh: set[str] = set()
        for node in walk.statements():
            found = survey.uses_forbidden(node, rules)
            if found:
                return found
            mentioned = survey.mentions(node)
            fresh |= mentioned.texts - texts
            looks_up |= mentioned.looks_up
            runs_text |= mentioned.runs_text
        texts |= fresh
        if looks_up and any(_is_named(text, rules) for text in texts):
            return min(text for text in texts if _is_named(text, rules))
        if not (runs_text and fresh):
            return None
        walk.add(node for text in sorted(texts) for node in survey.written(text))


def _is_named(text: str, rules: Rules) -> bool:
    """Whether a text is a forbidden name, alone or with dots."""
    if not NAME.fullmatch(text):
        return False
    dotted = re.sub("::?", ".", text)
    return rules.match(f"{UNKNOWN}.{dotted}") or dotted.partition(".")[0] in rules.bare


def _in_unread(sources: Iterable[str], rules: Rules) -> str | None:
    """A forbidden name that stands as a word in a cell that may run, but cannot be read here."""
    words = (re.findall(r"\w+", source) for source in sources)
    return next((word for each in words for word in each if word in rules.telling or word in rules.bare), None)


def _one_by_one(node: ast.stmt) -> list[ast.stmt]:
    """A statement, or one for each name where it imports several: an answer may use one of them alone."""
    if isinstance(node, ast.Import):
        return [ast.Import([alias]) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [ast.ImportFrom(node.module, [alias], node.level) for alias in node.names]
    return [node]


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and all below it whose names the whole notebook sees."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
