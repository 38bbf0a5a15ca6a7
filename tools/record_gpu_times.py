"""Record unit 9's measurements on a GPU: `python tools/record_gpu_times.py [FILE]`.

Attention, memory, LSTM and decoding are measured in bfloat16, as such models run, and in float32; attention with the
flash kernel and without. The case with which the unit begins is measured in bfloat16 alone.
The record is a small JSON file with the device, the driver, the versions, the date and the command beside the numbers.
Every time is a median with quartiles over several repeats. Without a CUDA GPU nothing is recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

DEFAULT_FILE = Path("attention_figures/gpu_record.json")
NO_GPU = "no CUDA GPU is in reach of PyTorch, so nothing was recorded"
#: Kernels to force: those of every device, and those that only a GPU has.
KERNELS = {"SDPA flash": SDPBackend.FLASH_ATTENTION, "SDPA math": SDPBackend.MATH}
GPU_KERNELS = {"SDPA efficient": SDPBackend.EFFICIENT_ATTENTION, "SDPA cuDNN": SDPBackend.CUDNN_ATTENTION}
#: Timed runs of a job, however slow it is, unless `repeats` is smaller.
LEAST = 5
MEASURED_IN_MEMORY = ("batched", "tiled", "SDPA flash", "SDPA math")
#: What is measured, in this order.
PARTS = ("roofline", "opening", "memory", "lstm", "decoding", "attention")
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Sizes:
    """Sizes and numbers of repeats for the measurements. The defaults suit a GPU; a test uses small ones.

    opening: heads, tokens and width of the case with which the unit begins.
    enough: seconds after which a slow job is not warmed up or repeated any more, except for the first five runs, or as
        many as `repeats` says if fewer.
    """

    heads: int = 16
    d_head: int = 64
    lengths: tuple[int, ...] = (64, 256, 1024, 2048, 4096, 8192, 16384)
    loop_limit: int = 256
    dtypes: tuple[torch.dtype, ...] = (torch.bfloat16, torch.float32)
    memory_lengths: tuple[int, ...] = (1024, 2048, 4096, 8192, 16384)
    lstm_lengths: tuple[int, ...] = (64, 256, 1024, 4096, 16384, 32768)
    lstm_width: int = 256
    lstm_heads: int = 4
    decode_heads: int = 32
    decode_groups: tuple[int, ...] = (32, 8, 4, 1)
    decode_lengths: tuple[int, ...] = (4096, 32768, 131072)
    opening: tuple[int, int, int] = (32, 8192, 128)
    matmul: int = 8192
    copy: int = 2**28
    block: int = 256
    warmup: int = 5
    repeats: int = 20
    enough: float = 1.0
    compiled: bool = True


# ---------------------------------------------------------------------------------------------------------------------
# The clock


def seconds(
    run: Callable[[], object], device: torch.device, warmup: int, repeats: int, enough: float = math.inf
) -> dict[str, float]:
    """Return median, quartiles and count of the seconds that `run` takes, by CUDA events or by the CPU's clock."""
    begun = time.perf_counter()
    for _ in range(warmup):
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if time.perf_counter() - begun > enough:
            break
    times = []
    while len(times) < repeats and (len(times) < LEAST or sum(times) < enough):
        if device.type == "cuda":
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            first.record()
            run()
            last.record()
            torch.cuda.synchronize()
            times.append(first.elapsed_time(last) / 1000)
        else:
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high, "repeats": len(times)}


# ---------------------------------------------------------------------------------------------------------------------
# What is measured


def loops(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Compute attention one query at a time."""
    out = torch.zeros_like(Q)
    for b in range(Q.shape[0]):
        for head in range(Q.shape[1]):
            for i in range(Q.shape[2]):
                scores = K[b, head] @ Q[b, head, i] / math.sqrt(Q.shape[-1])
                out[b, head, i] = torch.softmax(scores, 0) @ V[b, head]
    return out


def batched(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Compute attention by whole-tensor products, with all scores in memory."""
    return torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), -1) @ V


def tiled(Q: Tensor, K: Tensor, V: Tensor, block: int = 256) -> Tensor:
    """Compute attention with the online softmax over blocks of keys."""
    Q = Q / math.sqrt(Q.shape[-1])
    largest = torch.full_like(Q[..., :1], -math.inf)
    total, mix = torch.zeros_like(largest), torch.zeros_like(Q)
    for keys, values in zip(K.split(block, -2), V.split(block, -2), strict=True):
        scores = Q @ keys.mT
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        factor, terms = torch.exp(largest - new), torch.exp(scores - new)
        total, mix, largest = factor * total + terms.sum(-1, keepdim=True), factor * mix + terms @ values, new
    return mix / total


def grouped_products(q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Attend with queries (1, g, h/g, d) of one token to K, V (1, g, n, d); a group shares one product."""
    return torch.softmax(q @ K.mT * q.shape[-1] ** -0.5, -1) @ V


def grouped_sdpa(q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Do the same with SDPA, which gets the option that heads share keys and values."""
    together = q.flatten(1, 2).unsqueeze(2)
    return F.scaled_dot_product_attention(together, K, V, enable_gqa=q.shape[2] > 1).reshape(q.shape)


DECODERS = {"products": grouped_products, "SDPA": grouped_sdpa}


@dataclass(frozen=True)
class Variant:
    """An implementation of attention. kernel: the one that SDPA must use; None if PyTorch chooses."""

    name: str
    attention: Attention
    kernel: SDPBackend | None = None

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Allow only this kernel; enter outside of the timed part. SDPA raises RuntimeError if it cannot run."""
        return contextlib.nullcontext() if self.kernel is None else sdpa_kernel(self.kernel)


def variants(device: torch.device, sizes: Sizes) -> Iterator[Variant]:
    """Yield each variant: SDPA with the kernel that PyTorch chooses, and with each kernel by force."""
    yield Variant("loops", loops)
    yield Variant("batched", batched)
    yield Variant("tiled", lambda Q, K, V: tiled(Q, K, V, sizes.block))
    yield Variant("SDPA", F.scaled_dot_product_attention)
    for name, kernel in (KERNELS | GPU_KERNELS if device.type == "cuda" else KERNELS).items():
        yield Variant(name, F.scaled_dot_product_attention, kernel)
    if sizes.compiled:
        # Past its limit of recompilations PyTorch silently continues uncompiled; make that an error.
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        yield Variant("compiled", torch.compile(batched, dynamic=True))


def kernel_of(run: Callable[[], object]) -> str:
    """Return the kernel that SDPA uses in a call: flash, efficient, cudnn, or math if it is none of these."""
    with Operations() as seen:
        run()
    return next((word for word in ("flash", "efficient", "cudnn") if any(word in name for name in seen.names)), "math")


class Operations(TorchDispatchMode):
    """Records the names of all operations that PyTorch sends to the device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class Recorder:
    """Takes all measurements on one device. `left_out` says what could not be measured, and why."""

    def __init__(self, device: torch.device, sizes: Sizes) -> None:
        self.device, self.sizes = device, sizes
        self.left_out: list[dict[str, str]] = []

    def time(self, what: str, run: Callable[[], object]) -> dict[str, float] | None:
        """Return the seconds of `run`, or None and a note if it fails for lack of memory or of a kernel."""
        try:
            return seconds(run, self.device, self.sizes.warmup, self.sizes.repeats, self.sizes.enough)
        except Exception as problem:  # such as a missing compiler or kernel: the record says so
            self.leave_out(what, problem)
            return None

    def leave_out(self, what: str, problem: Exception) -> None:
        """Note what could not be measured, and why."""
        reason = (str(problem).strip() or "no reason given").splitlines()[0].partition(". ")[0].rstrip(".")
        self.left_out.append({"what": what, "why": f"{type(problem).__name__}: {reason}"})

    def inputs(self, n: int, dtype: torch.dtype, grad: bool = False) -> list[Tensor]:
        """Return Q, K, V of shape (1, heads, n, d_head)."""
        shape = (1, self.sizes.heads, n, self.sizes.d_head)
        return [torch.randn(shape, device=self.device).to(dtype).requires_grad_(grad) for _ in range(3)]

    def roofline(self) -> dict[str, Any]:
        """Measure the rate of a large matrix product for each dtype, and the bandwidth of a large copy."""
        peaks = {}
        for dtype in self.sizes.dtypes:
            A, B = (torch.randn(self.sizes.matmul, self.sizes.matmul, device=self.device).to(dtype) for _ in range(2))
            took = self.time(f"matmul {name_of(dtype)}", lambda A=A, B=B: A @ B)
            if took:
                peaks[name_of(dtype)] = rate(2 * self.sizes.matmul**3, took)
        source = torch.randn(self.sizes.copy, device=self.device)
        target = torch.empty_like(source)
        took = self.time("copy", lambda: target.copy_(source))
        return {"peak_flops": peaks, "bandwidth": took and rate(2 * source.nbytes, took)}

    def opening(self) -> list[dict[str, Any]]:
        """Measure the case with which the unit begins: whole attentions, and each step of batched attention."""
        heads, n, d = self.sizes.opening
        dtype = self.sizes.dtypes[0]
        Q, K, V = (torch.randn(1, heads, n, d, device=self.device).to(dtype) for _ in range(3))
        rows = []
        for variant in variants(self.device, self.sizes):
            if variant.name != "loops":
                with variant.alone():
                    run = torch.no_grad()(lambda f=variant.attention: f(Q, K, V))
                    took = self.time(f"opening, {variant.name}", run)
                rows += [{"job": variant.name, "seconds": took}] if took else []
        for name, job in self.steps_of(Q, K, V).items():
            took = self.time(f"opening, {name}", torch.no_grad()(job))
            rows += [{"job": name, "seconds": took}] if took else []
        common = {"dtype": name_of(dtype), "n": n, "batch": 1, "heads": heads, "d_head": d}
        return [{"job": row["job"], **common, "seconds": row["seconds"]} for row in rows]

    def steps_of(self, Q: Tensor, K: Tensor, V: Tensor) -> dict[str, Callable[[], object]]:
        """Return each step of batched attention, to be timed alone, with the right inputs and memory already in use."""
        scores = Q @ K.mT
        scaled = scores / math.sqrt(Q.shape[-1])
        weights, out, other = torch.softmax(scaled, -1), torch.empty_like(Q), torch.empty_like(scores)
        return {
            "scores = Q Kᵀ": lambda: torch.matmul(Q, K.mT, out=other),
            "scores / √d": lambda: torch.div(scores, math.sqrt(Q.shape[-1]), out=other),
            "softmax": lambda: torch.softmax(scaled, -1, out=other),
            "weights V": lambda: torch.matmul(weights, V, out=out),
            "exponentials": lambda: torch.exp(scaled, out=other),
            "copy of the scores": lambda: other.copy_(scores),
        }

    def attention(self) -> list[dict[str, Any]]:
        """Time every variant over n and dtype, forward and with backward; at each n the variants take turns."""
        rows = []
        everyone = list(variants(self.device, self.sizes))
        for dtype in self.sizes.dtypes:
            for n in self.sizes.lengths:
                for step in ("forward", "forward and backward"):
                    for variant in everyone:
                        if variant.name == "loops" and n > self.sizes.loop_limit:
                            continue
                        with variant.alone():
                            what = f"{variant.name}, {name_of(dtype)}, n = {n}, {step}"
                            took = self.time(what, self.step(variant.attention, n, dtype, step))
                        if took:
                            row = {"variant": variant.name, "dtype": name_of(dtype), "pass": step, "n": n, "batch": 1}
                            row |= {"heads": self.sizes.heads, "d_head": self.sizes.d_head, "seconds": took}
                            rows.append(row)
        return rows

    def step(self, function: Attention, n: int, dtype: torch.dtype, step: str) -> Callable[[], object]:
        """Return the function to time: one forward pass, or one with its backward pass."""
        if step == "forward":
            inputs = self.inputs(n, dtype)
            return torch.no_grad()(lambda: function(*inputs))
        inputs = self.inputs(n, dtype, grad=True)
        weight = torch.randn_like(inputs[0])
        return lambda: torch.autograd.grad((function(*inputs) * weight).sum(), inputs)

    def memory(self) -> list[dict[str, Any]]:
        """Measure the bytes beyond the inputs at the peak of one forward pass, which only a GPU's allocator reports."""
        if self.device.type != "cuda":
            return []
        rows = []
        kinds = [each for each in variants(self.device, self.sizes) if each.name in MEASURED_IN_MEMORY]
        for kind in kinds:
            for dtype in self.sizes.dtypes:
                for n in self.sizes.memory_lengths:
                    inputs = self.inputs(n, dtype)
                    try:
                        with kind.alone():
                            extra = self.peak_bytes(kind.attention, inputs)
                    except RuntimeError as problem:  # no memory, or no such kernel for this dtype
                        self.leave_out(f"memory of {kind.name}, {name_of(dtype)}, n = {n}", problem)
                        continue
                    row = {"variant": kind.name, "dtype": name_of(dtype), "n": n, "bytes": extra}
                    rows.append({**row, "score_matrix_bytes": self.sizes.heads * n * n * dtype.itemsize})
        return rows

    def peak_bytes(self, function: Attention, inputs: list[Tensor]) -> int:
        """Return the GPU allocator's peak during a call, beyond what it had allocated before."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with torch.no_grad():
            function(*inputs)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    def lstm(self) -> list[dict[str, Any]]:
        """Compare an LSTM layer with a causal attention layer of equal width on one sequence, without TF32."""
        torch.backends.cudnn.allow_tf32 = False
        return [row for dtype in self.sizes.dtypes for row in self.lstm_in(dtype)]

    def lstm_in(self, dtype: torch.dtype) -> Iterator[dict[str, Any]]:
        """Do the same in one dtype."""
        width, heads = self.sizes.lstm_width, self.sizes.lstm_heads
        layer = torch.nn.LSTM(width, width, batch_first=True).to(self.device, dtype)
        drawn = [torch.randn(width, width, device=self.device) / width**0.5 for _ in range(4)]
        weights = [W.to(dtype).requires_grad_() for W in drawn]

        def attend(X: Tensor) -> Tensor:
            Q, K, V = ((X @ W).unflatten(-1, (heads, -1)).transpose(1, 2) for W in weights[:3])
            return F.scaled_dot_product_attention(Q, K, V, is_causal=True).transpose(1, 2).flatten(2) @ weights[3]

        layers = {"lstm": (lambda X: layer(X)[0], list(layer.parameters())), "attention": (attend, weights)}
        for n in self.sizes.lstm_lengths:
            X = torch.randn(1, n, width, device=self.device).to(dtype)
            for step in ("forward", "forward and backward"):
                took = {}
                for name, (function, leaves) in layers.items():
                    run = torch.no_grad()(lambda f=function, X=X: f(X))
                    if step != "forward":
                        run = lambda f=function, X=X, leaves=leaves: torch.autograd.grad(f(X).sum(), leaves)  # noqa: E731
                    took[name] = self.time(f"{name}, {name_of(dtype)}, n = {n}, {step}", run)
                if all(took.values()):
                    yield {"n": n, "width": width, "dtype": name_of(dtype), "pass": step, **took}

    def decoding(self) -> list[dict[str, Any]]:
        """Time one token against a cache, for several numbers of key/value heads: by two products, and by SDPA."""
        heads, d, rows = self.sizes.decode_heads, self.sizes.d_head, []
        for dtype in self.sizes.dtypes:
            for n in self.sizes.decode_lengths:
                for groups in self.sizes.decode_groups:
                    K, V = (torch.randn(1, groups, n, d, device=self.device).to(dtype) for _ in range(2))
                    q = torch.randn(1, groups, heads // groups, d, device=self.device).to(dtype)
                    for variant, function in DECODERS.items():
                        run = torch.no_grad()(lambda f=function, q=q, K=K, V=V: f(q, K, V))
                        took = self.time(f"decoding by {variant}, {name_of(dtype)}, {groups} groups, n = {n}", run)
                        if took:
                            row = {"variant": variant, "n": n, "heads": heads, "groups": groups, "d_head": d}
                            row |= {"dtype": name_of(dtype), "bytes": K.nbytes + V.nbytes, "seconds": took}
                            row |= {"kernel": kernel_of(run)} if variant == "SDPA" else {}
                            rows.append(row)
        return rows


def name_of(dtype: torch.dtype) -> str:
    """Return the dtype's short name, such as "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")


def rate(work: int, took: dict[str, float]) -> dict[str, float]:
    """Convert seconds into work per second, which swaps the quartiles."""
    return {"median": work / took["median"], "low": work / took["high"], "high": work / took["low"]}


def made_by(device: torch.device, command: list[str]) -> dict[str, str]:
    """Return device, driver, versions, date and command."""
    name, driver = platform.processor() or platform.machine(), "none"
    if device.type == "cuda":
        name, driver = torch.cuda.get_device_name(device), "unknown"
        if shutil.which("nvidia-smi"):
            query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
            answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split()
            driver = answer[0] if answer else driver
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda or "none", "python": platform.python_version()}
    date = datetime.now(UTC).date().isoformat()
    return {"device": name, "driver": driver, **versions, "date": date, "command": shlex.join(command)}


def record(device: torch.device, sizes: Sizes, command: list[str]) -> dict[str, Any]:
    """Take all measurements on `device` and return the content of the file."""
    torch.manual_seed(0)
    recorder = Recorder(device, sizes)
    parts = {}
    for part in PARTS:
        print(f"measuring: {part}", flush=True)
        parts[part] = getattr(recorder, part)()
    return {"made": made_by(device, command), **parts, "left_out": recorder.left_out}


def as_text(made: dict[str, Any]) -> str:
    """Return the record as JSON, one list item per line, with measured numbers to five digits."""
    parts = []
    for name, value in made.items():
        rows = [json.dumps(short(row)) for row in value] if isinstance(value, list) else []
        text = "[\n  " + ",\n  ".join(rows) + "\n ]" if rows else json.dumps(short(value))
        parts.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def short(value: Any) -> Any:
    """Round the floats in a value to five digits."""
    if isinstance(value, dict):
        return {name: short(part) for name, part in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Exit code 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="python tools/record_gpu_times.py", description=__doc__)
    parser.add_argument(
        "file", nargs="?", type=Path, default=DEFAULT_FILE, help=f"where to write; default {DEFAULT_FILE}"
    )
    parser.add_argument("--repeats", type=int, default=Sizes.repeats, help="timed runs of each measurement")
    options = parser.parse_args(arguments)
    if options.repeats < 2:
        parser.error("--repeats must be at least 2: quartiles need more than one run")
    if not torch.cuda.is_available():
        print(f"gpu_record: {NO_GPU}.", file=sys.stderr)
        return 2
    if not options.file.parent.is_dir():
        print(f"gpu_record: no folder {options.file.parent}: start in the course's folder.", file=sys.stderr)
        return 2
    given = sys.argv[1:] if arguments is None else arguments
    command = ["python", "tools/record_gpu_times.py", *given]
    made = record(torch.device("cuda"), Sizes(repeats=options.repeats), command)
    options.file.write_text(as_text(made), encoding="utf-8")
    print(f"Recorded on {made['made']['device']}: {options.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
