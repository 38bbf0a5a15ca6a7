"""What the judge does for torch answers: tensors, kept dtypes, gradients, nested results, tensors made on the way."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from autograder.diagnosis.diagnose import judge
from autograder.exercises.kit import Activation, Case, Exercise, HostFunction, Leaf, Mistake, Rng
from autograder.grading.in_process import ask_here
from autograder.judging.hidden_cases import pose
from autograder.running.sandbox_messages import Request
from autograder.worker.call_function import host_function, perform
from autograder.worker.encode_values import decode


def step(x, cache, params):
    """A small function with nested arguments and results."""
    keys, values = cache
    keys = torch.cat([keys, x @ params["W_K"]])
    values = torch.cat([values, x @ params["W_V"]])
    return x @ keys.T @ values, (keys, values)


def draw(rng):
    def case(t, dtype=np.float64, criterion="values"):
        cache = (rng.standard_normal((t, 3)).astype(dtype), rng.standard_normal((t, 4)).astype(dtype))
        params = {"W_K": rng.standard_normal((3, 3)).astype(dtype), "W_V": rng.standard_normal((3, 4)).astype(dtype)}
        return Case(
            criterion, f"a cache of {t}", (rng.standard_normal((2, 3)).astype(dtype), cache, params), sizes={"t": t}
        )

    return [case(5), case(4), case(2, np.float32), case(0, criterion="edge cases")]


def without_new(x, cache, params):
    return x @ cache[0].T @ cache[1], cache


EXERCISE = Exercise(
    name="step",
    unit="99_test",
    returns=(Leaf("float array", "out"), (Leaf("float array", "keys"), Leaf("float array", "values"))),
    reference=step,
    draw=draw,
    credit={"values": 0.6, "edge cases": 0.2, "gradients": 0.2},
    mistakes=(Mistake("cache-not-extended", "The new token is missing.", without_new),),
    library="torch",
)


def verdict(function, exercise=EXERCISE, seed=0):
    posed = pose(exercise, seed)
    return judge(posed, ask_here(function, posed))


def test_the_reference_is_right_and_its_known_mistake_is_named():
    for seed in range(5):
        assert verdict(step, seed=seed).verdict == "right"
        assert verdict(without_new, seed=seed).mistake == "cache-not-extended"


def detached(x, cache, params):
    return step(x.detach(), tuple(c.detach() for c in cache), {k: v.detach() for k, v in params.items()})


def keys_detached(x, cache, params):
    out, (keys, values) = step(x, cache, params)
    return out, (keys.detach(), values)


def one_detached(x, cache, params):
    return step(x, cache, {**params, "W_V": params["W_V"].data})


def through_numpy(x, cache, params):
    out, kept = step(x, cache, params)
    return torch.from_numpy(out.numpy()), kept


def in_double(x, cache, params):
    out, kept = step(x, cache, params)
    return out.double(), kept


def as_numpy(x, cache, params):
    out, (keys, values) = step(x, cache, params)
    return out.detach().numpy(), (keys, values)


def list_cache(x, cache, params):
    out, kept = step(x, cache, params)
    return out, list(kept)


def flat_result(x, cache, params):
    out, kept = step(x, cache, params)
    return out, *kept


def in_place(x, cache, params):
    result = step(x, cache, params)
    params["W_K"] += 1
    return result


def pops(x, cache, params):
    return step(x, cache, {"W_K": params.pop("W_K"), "W_V": params["W_V"]})


def half(x, cache, params):
    out, kept = step(x, cache, params)
    return out.bfloat16(), kept


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (detached, "detached"),
        (one_detached, "detached"),
        (keys_detached, "gradient-wrong"),
        (through_numpy, "detached"),
        (in_double, "dtype-changed"),
        (as_numpy, "wrong-type"),
        (list_cache, "wrong-number-of-results"),
        (flat_result, "wrong-number-of-results"),
        (in_place, "input-changed"),
        (pops, "input-changed"),
        (half, "wrong-type"),
    ],
)
def test_slips_of_form_are_named(answer, mistake):
    found = verdict(answer)
    assert found.verdict == "wrong"
    assert found.mistake == mistake, found.message
    assert found.score < found.points


def test_a_detached_answer_keeps_the_points_of_its_values():
    found = verdict(detached)
    assert found.score == pytest.approx(0.9 * 0.8 + 0.1)


def test_the_gradient_of_a_stand_in_crosses_the_border():
    posed = pose(EXERCISE, 3)
    request = Request("step", posed.cases, {"helper": step}, "torch")

    def ask(header, payload):
        reply, data = request.reply(header, payload)
        assert "raise" not in reply, reply
        return decode(reply["value"], data)

    helper = host_function("helper", ask, torch=True)
    transcript = request.transcript()
    perform(lambda *args: helper(*args), request.calls, request.payload, transcript.take, ask)
    found = judge(posed, transcript.answer)
    assert found.verdict == "right", found.message


def test_generators_activations_and_host_functions_reach_the_student_as_torch():
    def reference(generator, activation, logits, x):
        drawn = torch.rand(3, generator=generator, dtype=torch.float64)
        return activation(x) * drawn + logits([1, 2])

    exercise = Exercise(
        name="mixed",
        unit="99_test",
        returns=Leaf("float array"),
        reference=reference,
        draw=lambda rng: [
            Case(
                "values",
                "one",
                (
                    Rng(7),
                    Activation("tanh", 1.3),
                    HostFunction(lambda tokens: np.array([1.0, 2.0, sum(tokens)])),
                    rng.standard_normal(3),
                ),
            )
        ],
        credit={"values": 0.5, "gradients": 0.5},
        mistakes=(),
        library="torch",
    )
    assert verdict(reference, exercise).verdict == "right"


def test_tensors_made_on_the_way_are_seen():
    def reference(q, k):
        return torch.einsum("hnd,md->hnm", q, k)

    def copies(q, k):
        return q @ k.expand(q.shape[0], *k.shape).contiguous().transpose(1, 2)

    def views(q, k):
        return q @ k.expand(q.shape[0], *k.shape).transpose(1, 2)

    def made(case, arrays):
        k = case.args[1]
        wanted = np.sort(np.repeat(k.ravel(), case.sizes["h"]))
        for array in arrays:
            if array.size == wanted.size and np.allclose(np.sort(array.ravel()), wanted):
                return "it makes K once per head"
        return None

    exercise = Exercise(
        name="shared",
        unit="99_test",
        returns=Leaf("float array"),
        reference=reference,
        draw=lambda rng: [
            Case("values", "one", (rng.standard_normal((4, 3, 2)), rng.standard_normal((5, 2)))),
            Case(
                "memory", "two", (rng.standard_normal((4, 3, 2)), rng.standard_normal((5, 2))), sizes={"h": 4}, watch=40
            ),
        ],
        credit={"values": 0.5, "memory": 0.3, "gradients": 0.2},
        mistakes=(Mistake("expands", "K is copied.", copies),),
        library="torch",
        made=made,
    )
    assert verdict(reference, exercise).verdict == "right"
    assert verdict(views, exercise).verdict == "right"
    assert verdict(copies, exercise).mistake == "expands"
    assert verdict(lambda q, k: q @ torch.stack([k] * 4).mT, exercise).mistake in ("expands", "materialises")


class Misspelt(torch.nn.Module):
    def forwards(self, x):
        return x


LIBRARYS = {
    "an activation of integers": lambda x: torch.softmax(torch.arange(3), dim=0),
    "a misspelt forward": lambda x: Misspelt()(x),
    "a dtype that is not supported": lambda x: torch.erfinv(torch.eye(2, dtype=torch.complex64)),
    "a histogram of integers": lambda x: torch.histc(torch.arange(3), bins=2),
    "a layout that is not supported": lambda x: torch.eye(2).to_sparse().flip(0),
}


@pytest.mark.parametrize("kind", LIBRARYS)
def test_a_librarys_not_implemented_error_is_no_stub(kind):
    def calls_it(x, cache, params):
        return LIBRARYS[kind](x)

    found = verdict(calls_it)
    assert found.verdict == "crashed" and "not written" not in found.message, found
    assert found.message.startswith("Your function raises NotImplementedError: "), found.message


@torch.no_grad()
def stub(x, cache, params):
    raise NotImplementedError("Write your answer here.")


def test_a_wrapped_stub_is_missing():
    assert verdict(stub).verdict == "missing"
