"""Detects calls that an exercise forbids while an answer runs.

The answer's text isn't read, because a name in it need not be used, and a forbidden function may be called by another
name. A forbidden call raises `Seen` instead of returning, after the finding has been sent, so that an answer can't take
it back.

- Torch's operators and functions are blocked at their source (call_monitor_torch.py), at no cost to an honest answer.
- An audit hook, which can't be removed in Python, detects an import of a forbidden module.
- If a forbidden module has been imported before, such as to compare results with the answer's, a profile hook checks
  each call. That costs time, so it is set only then.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from . import call_monitor_torch as closed

#: Reported for an answer that removes a hook.
HIDING = "what hides its calls"
#: Audit events of an answer that evades the monitor: it reaches for the hooks, or has another program do the work.
EVASIONS = {
    "gc.get_objects": "gc.get_objects",
    "gc.get_referrers": "gc.get_referrers",
    "gc.get_referents": "gc.get_referents",
    "subprocess.Popen": "another program",
    "os.system": "another program",
    "os.exec": "another program",
    "os.posix_spawn": "another program",
}


class Seen(BaseException):
    """Raised by a forbidden call instead of returning; no `except Exception` catches it."""


class Lookout:
    """Watches for forbidden calls while an answer runs; use as a context manager.

    forbidden: modules, such as "scipy"; modules of torch, such as "torch._refs"; calls of torch by their last parts,
        such as "nn.MultiheadAttention"; and functions that the notebook gives, such as "widen".
    report: is called once with the name of what was used, before the call has any effect.
    given: the notebook's own functions by name, as they were given.
    """

    def __init__(
        self, forbidden: Iterable[str], report: Callable[[str], None], given: Mapping[str, Any] | None = None
    ) -> None:
        names, given = list(forbidden), dict(given or {})
        calls = [name for name in names if "." in name]
        self.found: str | None = None
        self._report = report
        self._rooms = tuple(name for name in calls if name.startswith("torch."))
        self._calls = frozenset(name.rpartition(".")[2] for name in calls if name not in self._rooms)
        self._modules = frozenset(names) - frozenset(calls)
        self._closing = [(name, given[name]) for name in names if name in given]
        self._allowed = [given[name] for name in given if name not in names and self._calls & _names(given[name])]
        self._open = contextlib.ExitStack()
        self._paths: tuple[str, ...] = ()
        self._intact: list[Callable[[], bool]] = []
        self._operators: Any = None
        self._at_rest: set[int] = set()

    def tell(self, name: str, *_: Any) -> None:
        """Report a use, and raise `Seen`."""
        if self.found is None:
            self.found = name
            self._report(name)
        raise Seen(name)

    def __enter__(self) -> Lookout:
        self.open()
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def open(self) -> None:
        """Start watching."""
        torch = "torch" in sys.modules
        if torch or self._closing:
            allowed = [(function, self._run, (_copy(function),)) for function in self._allowed]
            self._open.enter_context(closed.replaced(allowed))
            self._open.enter_context(closed.functions(self._closing, self._calls, self._rooms, self.tell))
            if torch and self._calls:
                self._operators = self._open.enter_context(closed.Operators(self._calls, self._rests, self.tell))
                self._intact.append(self._operators.intact)
            if torch and "torch" in self._modules:
                self._intact.append(self._open.enter_context(closed.all_of_torch(self._rests, self.tell)))
            if torch and "torch.autograd" in self._rooms:
                self._intact.append(self._open.enter_context(closed.recording(self._rests, self.tell)))
        self._paths = tuple(path for root in self._modules - {"torch", "functorch"} for path in _places(root))
        self._open.enter_context(_heard_by(self._hear))

    def close(self) -> None:
        """Stop watching."""
        self._open.close()
        self._intact.clear()
        self._operators = None

    def _rests(self) -> bool:
        return threading.get_ident() in self._at_rest

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Ignore what this thread runs in the `with` block, because it is no part of the answer."""
        me = threading.get_ident()
        if me in self._at_rest:
            yield
            return
        operators = self._operators if self._operators is not None and not self._operators.can_rest else None
        self._at_rest.add(me)
        if operators is not None:
            operators.__exit__()
        try:
            yield
        finally:
            if operators is not None:
                operators.__enter__()
            self._at_rest.discard(me)

    def _run(self, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function that the notebook gives, which may use what the answer may not."""
        with self.resting():
            return function(*args, **kwargs)

    @contextlib.contextmanager
    def over(self, closely: bool) -> Iterator[None]:
        """Watch what runs in the `with` block; a forbidden call raises `Seen`, at the block's end if not before.

        closely: check each call if a forbidden module has been imported.
        """
        looking, watching = closely and bool(self._paths), len(self._intact)
        if looking:
            threading.setprofile(self._look)
            sys.setprofile(self._look)
        try:
            yield
        finally:
            gone = looking and sys.getprofile() != self._look
            if looking:
                sys.setprofile(None)
                threading.setprofile(None)
            if self.found is not None:  # the answer may have caught it
                raise Seen(self.found)
            lost = len(self._intact) != watching or (closely and not all(intact() for intact in self._intact))
            if gone or lost:
                self.tell(HIDING)

    def _look(self, frame: Any, event: str, called: Any) -> None:
        if self._rests():
            return
        if event == "call":
            if frame.f_code.co_filename.startswith(self._paths):
                self.tell(self._owner(frame.f_code.co_filename))
        elif event == "c_call":
            module = called.__module__
            if type(module) is str and module.partition(".")[0] in self._modules:
                self.tell(module.partition(".")[0])

    def _owner(self, path: str) -> str:
        return next((root for root in sorted(self._modules) if path.startswith(_places(root))), HIDING)

    def _hear(self, event: str, told: tuple[Any, ...]) -> None:
        if self._rests():
            return
        if event == "import":
            name = str(told[0])
            if name.partition(".")[0] in self._modules:
                self.tell(name.partition(".")[0])
            room = next((room for room in self._rooms if f"{name}.".startswith(f"{room}.")), None)
            if room is not None and _imported_by_a_cell():
                self.tell(room)
        elif event == "sys.setprofile":
            # A thread sets its own profile hook when it begins.
            if self._paths and sys._getframe(2).f_code.co_filename not in (__file__, threading.__file__):
                self.tell(HIDING)
        elif event == "object.__setattr__":
            if told[1] == "__code__" and id(getattr(told[0], "__code__", None)) in closed.CLOSED:
                self.tell(HIDING)
        elif event in EVASIONS:
            self.tell(EVASIONS[event])


def _names(function: FunctionType) -> set[str]:
    """Return the names in a function's code, and in that of functions inside it."""
    codes, found = [function.__code__], set[str]()
    for code in codes:
        found.update(code.co_names)
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found


def _copy(function: FunctionType) -> FunctionType:
    """Return a copy that keeps its code when the code of `function` is replaced."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _places(root: str) -> tuple[str, ...]:
    """Return the folders of a module that has been imported, or its file."""
    module = sys.modules.get(root)
    folders = tuple(f"{path.rstrip('/')}/" for path in getattr(module, "__path__", ()))
    return folders or tuple(filter(None, [getattr(module, "__file__", None)]))


def _imported_by_a_cell() -> bool:
    """Return whether the current import is in the student's code, and not in torch's."""
    frame = sys._getframe(3)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and "/torch/" not in frame.f_code.co_filename


def _audit() -> Callable[[Callable[[str, tuple[Any, ...]], None]], contextlib.AbstractContextManager[None]]:
    """Return a context manager that sends audit events to a listener; its hook is added once and can't be removed."""
    listener = None

    def hook(event: str, told: tuple[Any, ...]) -> None:
        if listener is not None and event in HEARD:
            listener(event, told)

    @contextlib.contextmanager
    def heard_by(other: Callable[[str, tuple[Any, ...]], None]) -> Iterator[None]:
        nonlocal listener, hook
        if hook is not None:
            sys.addaudithook(hook)
            hook = None
        before, listener = listener, other
        try:
            yield
        finally:
            listener = before

    return heard_by


HEARD = frozenset(("import", "sys.setprofile", "object.__setattr__", *EVASIONS))
_heard_by = _audit()
