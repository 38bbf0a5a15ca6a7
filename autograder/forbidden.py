"""Does an answer use a library that does the whole exercise? Read from the syntax tree, never by running it.

The search starts in the answer's cell and follows, by name, the student's other cells that the answer uses. A
determined student can hide a call from it; the point is to tell an honest one.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from .syntax import bound_names, statements


class Survey:
    """What all cells of one submission define and import. Reading them takes time, so it is done once."""

    def __init__(self, sources: Sequence[str]) -> None:
        nodes = [node for source in sources for node in statements(source)]
        self.imported = _imports(_outside_functions(nodes))
        self.definitions: dict[str, list[ast.stmt]] = {}
        self._reaches: dict[str, set[str]] = {}
        for node in nodes:
            for name in bound_names(node):
                self.definitions.setdefault(name, []).append(node)

    def uses(self, function: str, name: str) -> bool:
        """Whether `function` leads to `name`, by way of the student's other cells or at once.

        A function that no cell defines, so far as can be read, may use anything.
        """
        return function not in self.definitions or name in self._reached(function)

    def _reached(self, function: str) -> set[str]:
        if function not in self._reaches:
            seen, waiting = set(), [function]
            while waiting:
                name = waiting.pop()
                if name not in seen:
                    seen.add(name)
                    waiting.extend(used for node in self.definitions.get(name, ()) for used in _names(node))
            self._reaches[function] = seen
        return self._reaches[function]


def _names(node: ast.AST) -> Iterator[str]:
    return (child.id for child in ast.walk(node) if isinstance(child, ast.Name))


def find_forbidden(
    function: str, sources: Sequence[str] | Survey, forbidden: Sequence[str], others: Collection[str] = ()
) -> str | None:
    """The first forbidden name that `function` reaches, or None.

    sources: the student's cells, all of them, in order, or a survey of them.
    forbidden: modules, such as "scipy", dotted calls by their last parts, such as "nn.MultiheadAttention", or names of
        functions that the notebook gives.
    others: functions that are not followed, since they are replaced where this one is asked.
    """
    survey = sources if isinstance(sources, Survey) else Survey(sources)
    imported, definitions = survey.imported, survey.definitions
    seen, waiting = set(others), [function]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        found = _match(imported.get(name, name if name in imported else ""), forbidden)
        if found:
            return found
        for node in definitions.get(name, []):
            found = _in_node(node, imported, forbidden) or _given(node, set(definitions), forbidden)
            if found:
                return found
            waiting.extend(_names(node))
    return None


def _given(node: ast.stmt, defined: set[str], forbidden: Sequence[str]) -> str | None:
    """A forbidden function of ours that `node` calls: one that is neither the student's own nor a parameter."""
    own = defined | {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}
    called = (child.func for child in ast.walk(node) if isinstance(child, ast.Call))
    names = (func.id for func in called if isinstance(func, ast.Name))
    return next((name for name in names if name in forbidden and name not in own), None)


def _outside_functions(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes below `nodes` whose names the whole notebook sees."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def _imports(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Local name -> dotted origin, for every import among `nodes`."""
    origins: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                origins[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origins[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
    return origins


def _in_node(node: ast.AST, imported: Mapping[str, str], forbidden: Sequence[str]) -> str | None:
    imported = {**imported, **_imports(ast.walk(node))}
    for child in ast.walk(node):
        dotted = ""
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            for origin in _imports([child]).values():
                found = _match(origin, forbidden)
                if found:
                    return found
        elif isinstance(child, ast.Attribute):
            dotted = _dotted(child, imported)
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and child.id in imported:
            dotted = imported[child.id]
        elif isinstance(child, ast.Call):
            dotted = _imported_by_call(child)
        found = _match(dotted, forbidden)
        if found:
            return found
    return None


def _dotted(node: ast.Attribute, imported: Mapping[str, str]) -> str:
    parts = [node.attr]
    value = node.value
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    if isinstance(value, ast.Name):
        parts.append(imported.get(value.id, value.id))
    return ".".join(reversed(parts))


def _imported_by_call(node: ast.Call) -> str:
    """The module named in `__import__("…")` or `import_module("…")`."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    first = node.args[0] if node.args else None
    if called in ("__import__", "import_module") and isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return ""


def _match(dotted: str, forbidden: Sequence[str]) -> str | None:
    """A module matches at the front ("scipy" in "scipy.special.softmax"); a call matches at the end."""
    for name in forbidden:
        if dotted == name or dotted.startswith(name + ".") or ("." in name and dotted.endswith("." + name)):
            return dotted
        if "." in name and dotted.endswith("." + name.rsplit(".", 1)[1]) and dotted.startswith("torch."):
            return dotted
    return None
