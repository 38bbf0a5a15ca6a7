"""Closes what of torch an exercise forbids, at its source: whatever name or way leads there ends here.

An operator is closed in torch's own dispatcher, below Python: so it is for `torch.nn.functional`, `torch.ops`, methods,
modules, scripts, transformed functions and threads alike. A function that is written in Python is closed in its code.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

#: Where an operator may be taken up: for plain tensors; for one that is made of others, for those of gradients, of
#: `torch.func` and nested ones too, each of which would take it apart.
PLAIN = "CPU"
EVERYWHERE = (PLAIN, "AutogradCPU", "FuncTorchDynamicLayerFrontMode", "AutogradNestedTensor")
#: Where torch keeps second versions of its calls, attention and norms among them, written in Python.
ROOMS = (
    "torch.nn.attention",
    "torch._higher_order_ops.flex_attention",
    "torch.nested._internal.sdpa",
    "torch._refs",
    "torch._decomp",
    "torch._inductor",
    "torch.onnx",
)
#: Those of single calls, most of them harmless: closed by name.
MIXED = ("torch._refs", "torch._decomp")
#: Which code is that of a function that is closed at the moment.
CLOSED: set[int] = set()
#: The flags of code that only a function of the same kind may have.
KINDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
Tell = Callable[..., None]


class Operators:
    """A context manager that closes torch's operators of these names.

    resting: whether what runs at the moment is no part of the answer; then they do what they always do.
    """

    def __init__(self, names: Iterable[str], resting: Callable[[], bool], tell: Tell) -> None:
        self._names, self._resting, self._tell = frozenset(names), resting, tell
        self._closed: list[str] = []
        self._library: Any = None
        #: Whether this torch hands out what an operator has done until now.
        self.can_rest = True

    def __enter__(self) -> Operators:
        import torch

        self.can_rest = hasattr(torch.library, "get_kernel")
        self._library = torch.library.Library("aten", "IMPL")
        is_there = torch._C._dispatch_has_kernel_for_dispatch_key
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is replaced
            for name, full in _at_hand(self._names):
                kernel, keys = self._kernel(name, full), (PLAIN,)
                if not is_there(full, PLAIN):
                    keys = EVERYWHERE
                    self._closed.append(full)
                for key in keys:
                    self._library.m.impl(full, key, kernel, True)
        return self

    def __exit__(self, *error: Any) -> None:
        self._library._destroy()
        self._closed.clear()

    def intact(self) -> bool:
        """Whether they are still closed. They are opened all at once, so one tells of all."""
        import torch

        return not self._closed or torch._C._dispatch_has_kernel_for_dispatch_key(self._closed[0], PLAIN)

    def _kernel(self, name: str, full: str) -> Callable[..., Any]:
        import torch

        own = torch.library.get_kernel(full, PLAIN) if self.can_rest else None
        resting, tell = self._resting, self._tell

        def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
            if own is None or not resting():
                tell(_called(name))
            return own.call_boxed(keys, *args, **kwargs)

        return kernel


@functools.lru_cache(16)
def _at_hand(names: frozenset[str]) -> list[tuple[str, str]]:
    """Those of torch's operators that are called so and run here: by name, and in full."""
    import torch

    schemas, runs = torch._C._jit_get_schemas_for_operator, torch._C._dispatch_has_computed_kernel_for_dispatch_key
    full = [
        (name, f"aten::{name}.{schema.overload_name}".rstrip("."))
        for name in sorted(names)
        for schema in schemas(f"aten::{name}")
    ]
    return [(name, operator) for name, operator in full if runs(operator, PLAIN)]


def _called(name: str) -> str:
    """An operator as a student knows it."""
    import torch

    known = (("torch.nn.functional", torch.nn.functional), ("torch", torch))
    return next((f"{room}.{name}" for room, module in known if hasattr(module, name)), f"torch.ops.aten.{name}")


@contextlib.contextmanager
def functions(
    closing: Iterable[tuple[str, FunctionType]], calls: Iterable[str], rooms: Iterable[str], tell: Tell
) -> Iterator[None]:
    """Close functions that are written in Python: those given, those called so in torch, and all of whole rooms."""
    closing = list(closing)
    if "torch" in sys.modules and (calls or rooms):
        closing += _of_torch(frozenset(calls), tuple(rooms))
    with replaced([(function, tell, (name,)) for name, function in closing]):
        yield


@contextlib.contextmanager
def replaced(functions: Iterable[tuple[FunctionType, Callable[..., Any], tuple[Any, ...]]]) -> Iterator[None]:
    """Have functions run `instead(*first, args, kwargs)`, whatever names lead to them."""
    before: dict[FunctionType, CodeType] = {}
    for function, instead, first in functions:
        if function not in before:
            before[function] = function.__code__
            code = _code(instead, first, len(function.__closure__ or ()), function.__code__.co_flags & KINDS)
            function.__code__ = code
            CLOSED.add(id(code))
    try:
        yield
    finally:
        for function, code in before.items():
            CLOSED.discard(id(function.__code__))
            function.__code__ = code


def _of_torch(calls: frozenset[str], rooms: tuple[str, ...]) -> list[tuple[str, FunctionType]]:
    import torch

    found: list[tuple[str, FunctionType]] = []
    for module in (torch.nn, torch.nn.functional):
        for name in calls & vars(module).keys():
            found += _inside(f"{module.__name__}.{name}", vars(module)[name])
    stems = tuple(name.strip("_") for name in calls)
    for room in rooms:
        for name, function in all_in(room):
            called = name.rpartition(".")[2]
            if room not in MIXED or any(stem in called for stem in stems):
                found.append((name, function))
    return found


def all_in(room: str) -> list[tuple[str, FunctionType]]:
    """What is written in Python in a room of torch, by its full name."""
    inside = f"{room}."
    return _all_in(room, tuple(name for name in list(sys.modules) if name == room or name.startswith(inside)))


@functools.lru_cache(16)
def _all_in(room: str, names: tuple[str, ...]) -> list[tuple[str, FunctionType]]:
    """names: of the modules in there; where one more has been imported, this is another question."""
    found = []
    for name in names:
        module = sys.modules[name]
        if not isinstance(module, ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if type(value).__name__ == "CustomOpDef":  # an operator that is written in Python
                value = value._init_fn
            if type(value) is FunctionType and str(value.__module__).startswith((room, *ROOMS)):
                found.append((f"{name}.{key}", value))
    return found


def _inside(name: str, thing: Any) -> list[tuple[str, FunctionType]]:
    """A function; or of a class, and of torch's own classes that are made of it, what calls them."""
    if type(thing) is FunctionType:
        return [(name, thing)]
    if not isinstance(thing, type):
        return []
    own = [(name, thing.__dict__["forward"])] if type(thing.__dict__.get("forward")) is FunctionType else []
    kinds = (kind for kind in thing.__subclasses__() if kind.__module__.startswith("torch."))
    return own + [each for kind in kinds for each in _inside(f"{kind.__module__}.{kind.__name__}", kind)]


@functools.lru_cache(64)
def _form(cells: int, kind: int) -> CodeType:
    """Code that calls one constant with another, of a function with so many variables of an outer one.

    kind: the flags that tell a generator or coroutine from a plain function, whose code it cannot have.
    """
    names, call = [f"x{i}" for i in range(cells)], "'instead'(*'first', args, kwargs)"
    head = "async def" if kind & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR) else "def"
    yields = kind & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR)
    lines = ["def outer():", *(f"    {name} = None" for name in names), f"    {head} inner(*args, **kwargs):"]
    lines += [f"        if False: {name}" for name in names]
    lines += [f"        {call}", "        yield"] if yields else [f"        return {call}"]
    lines += ["    return inner"]
    space: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a text can't be called
        exec("\n".join(lines), space)
    return space["outer"]().__code__


def _code(instead: Callable[..., Any], first: tuple[Any, ...], cells: int, kind: int) -> CodeType:
    """Code without any name that could be given another meaning."""
    form = _form(cells, kind)
    known = {"instead": instead, "first": first}
    consts = tuple(known.get(const, const) if type(const) is str else const for const in form.co_consts)
    return form.replace(co_consts=consts)


@contextlib.contextmanager
def all_of_torch(resting: Callable[[], bool], tell: Tell) -> Iterator[Callable[[], bool]]:
    """Close every operator of torch to this thread; gives what says whether they are still closed."""
    from torch.utils import _python_dispatch as dispatch

    class Mode(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not resting():
                tell("torch")
            return func(*args, **(kwargs or {}))

    mode = Mode()
    with mode:
        yield lambda: dispatch._get_current_dispatch_mode() is mode


@contextlib.contextmanager
def recording(resting: Callable[[], bool], tell: Tell) -> Iterator[Callable[[], bool]]:
    """See whatever this thread records for a gradient, by whichever door; gives what says whether it still sees.

    Without a record there is nothing that autograd could work out, called by a script, the engine's name or by hand.
    """
    import torch

    def seen(tensor: Any) -> Any:
        if not resting():
            tell("torch.autograd")
        return tensor

    hooks = torch._C._autograd
    top = getattr(hooks, "_top_saved_tensors_default_hooks", None)
    hooks._push_saved_tensors_default_hooks(seen, lambda tensor: tensor)
    try:
        yield lambda: top is None or (top(False) or (None,))[0] is seen
    finally:
        hooks._pop_saved_tensors_default_hooks()
