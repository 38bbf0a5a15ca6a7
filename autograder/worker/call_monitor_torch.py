"""Blocks the parts of torch that an exercise forbids at their source, whatever name they are called by.

An operator is blocked in torch's own dispatcher, below Python, and so for `torch.nn.functional`, `torch.ops`, methods,
modules, scripts, transformed functions and threads alike. A function written in Python is blocked in its code object.
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

#: Dispatch keys at which an operator is blocked: PLAIN, or EVERYWHERE if it is composed of others, because gradients,
#: `torch.func` and nested tensors would each decompose it first.
PLAIN = "CPU"
EVERYWHERE = (PLAIN, "AutogradCPU", "FuncTorchDynamicLayerFrontMode", "AutogradNestedTensor")
#: Modules of torch that hold second versions of its functions, such as attention and norms, written in Python.
ROOMS = (
    "torch.nn.attention",
    "torch._higher_order_ops.flex_attention",
    "torch.nested._internal.sdpa",
    "torch._refs",
    "torch._decomp",
    "torch._inductor",
    "torch.onnx",
)
#: Of these, modules of mostly harmless functions, which are blocked by name.
MIXED = ("torch._refs", "torch._decomp")
#: Ids of the code objects that block a function at the moment.
CLOSED: set[int] = set()
#: Flags of code that only a function of the same kind may have.
KINDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
Tell = Callable[..., None]


class Operators:
    """Blocks torch's operators of these names; use as a context manager.

    resting: says whether the running code is no part of the answer; the operators then work as usual.
    """

    def __init__(self, names: Iterable[str], resting: Callable[[], bool], tell: Tell) -> None:
        self._names, self._resting, self._tell = frozenset(names), resting, tell
        self._closed: list[str] = []
        self._library: Any = None
        #: Whether this version of torch gives access to an operator's original kernel.
        self.can_rest = True

    def __enter__(self) -> Operators:
        import torch

        self.can_rest = hasattr(torch.library, "get_kernel")
        self._library = torch.library.Library("aten", "IMPL")
        is_there = torch._C._dispatch_has_kernel_for_dispatch_key
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
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
        """Return whether they are still blocked; checking one is enough, because all are unblocked together."""
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
    """Return name and full name of each torch operator that has one of these names and runs here."""
    import torch

    schemas, runs = torch._C._jit_get_schemas_for_operator, torch._C._dispatch_has_computed_kernel_for_dispatch_key
    full = [
        (name, f"aten::{name}.{schema.overload_name}".rstrip("."))
        for name in sorted(names)
        for schema in schemas(f"aten::{name}")
    ]
    return [(name, operator) for name, operator in full if runs(operator, PLAIN)]


def _called(name: str) -> str:
    """Return the name by which a student knows an operator."""
    import torch

    known = (("torch.nn.functional", torch.nn.functional), ("torch", torch))
    return next((f"{room}.{name}" for room, module in known if hasattr(module, name)), f"torch.ops.aten.{name}")


@contextlib.contextmanager
def functions(
    closing: Iterable[tuple[str, FunctionType]], calls: Iterable[str], rooms: Iterable[str], tell: Tell
) -> Iterator[None]:
    """Block functions written in Python: those given, torch's of these names, and those of whole modules of torch."""
    closing = list(closing)
    if "torch" in sys.modules and (calls or rooms):
        closing += _of_torch(frozenset(calls), tuple(rooms))
    with replaced([(function, tell, (name,)) for name, function in closing]):
        yield


@contextlib.contextmanager
def replaced(functions: Iterable[tuple[FunctionType, Callable[..., Any], tuple[Any, ...]]]) -> Iterator[None]:
    """Make functions run `instead(*first, args, kwargs)`, whatever name they are called by."""
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
    """Return the functions that are written in Python in a module of torch, each with its full name."""
    inside = f"{room}."
    return _all_in(room, tuple(name for name in list(sys.modules) if name == room or name.startswith(inside)))


@functools.lru_cache(16)
def _all_in(room: str, names: tuple[str, ...]) -> list[tuple[str, FunctionType]]:
    """Return the same, cached. names: the modules imported so far; another import makes it search again."""
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
    """Return a function itself, or the `forward` methods of a class and of torch's own subclasses, with their names."""
    if type(thing) is FunctionType:
        return [(name, thing)]
    if not isinstance(thing, type):
        return []
    own = [(name, thing.__dict__["forward"])] if type(thing.__dict__.get("forward")) is FunctionType else []
    kinds = (kind for kind in thing.__subclasses__() if kind.__module__.startswith("torch."))
    return own + [each for kind in kinds for each in _inside(f"{kind.__module__}.{kind.__name__}", kind)]


@functools.lru_cache(64)
def _form(cells: int, kind: int) -> CodeType:
    """Return code that calls one constant with another, for a function with this many closure variables.

    kind: the flags of a generator or coroutine, which can't have the code of a plain function.
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
        warnings.simplefilter("ignore")  # Python warns that a text can't be called
        exec("\n".join(lines), space)
    return space["outer"]().__code__


def _code(instead: Callable[..., Any], first: tuple[Any, ...], cells: int, kind: int) -> CodeType:
    """Return code without any name, because a name could be bound to something else."""
    form = _form(cells, kind)
    known = {"instead": instead, "first": first}
    consts = tuple(known.get(const, const) if type(const) is str else const for const in form.co_consts)
    return form.replace(co_consts=consts)


@contextlib.contextmanager
def all_of_torch(resting: Callable[[], bool], tell: Tell) -> Iterator[Callable[[], bool]]:
    """Block every operator of torch in this thread; yields a function that says whether they are still blocked."""
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
    """Detect everything that this thread records for a gradient; yields a function that says whether it still does.

    Without a record, autograd can compute nothing, whether a script, the engine or the student's own code calls it.
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
