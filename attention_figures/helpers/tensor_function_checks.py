"""Checks with random inputs what every function of tensors should satisfy, and compares tensors for tests."""

import torch


def mapped(change, thing):
    """Return the same nest of dicts, lists and tuples with each float tensor changed."""
    if isinstance(thing, torch.Tensor):
        return change(thing) if thing.is_floating_point() else thing
    if isinstance(thing, dict):
        return {name: mapped(change, one) for name, one in thing.items()}
    if isinstance(thing, (list, tuple)):
        return type(thing)(mapped(change, one) for one in thing)
    return thing


def floats(thing):
    """Return all float tensors in a nest of dicts, lists and tuples, in order."""
    found = []
    mapped(lambda tensor: found.append(tensor) or tensor, thing)
    return found


def near(found, wanted, tolerance=1e-7):
    """Return whether two tensors have the same shape and nearly the same entries."""
    alike = found.shape == wanted.shape
    return alike and torch.allclose(found, wanted, rtol=tolerance, atol=tolerance)


def normal(*shape, seed=0):
    """Return normal random numbers in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def check_conduct(name, answer, *inputs):
    """Assert that `answer` keeps inputs and dtype, repeats its results, and has right gradients for all inputs."""
    before = mapped(torch.clone, inputs)
    first, second = floats((answer(*inputs),)), floats((answer(*inputs),))
    kept = len(floats(inputs)) == len(floats(before))
    told = f"{name} changes an input: make a new tensor, or a new list, instead."
    assert kept and all(map(torch.equal, floats(inputs), floats(before))), told
    told = f"The same call of {name} twice gives two results."
    assert all(map(torch.equal, first, second)), told
    for found in floats((answer(*mapped(torch.Tensor.float, inputs)),)):
        told = f"{name}: float32 in, but {found.dtype} out. Which number brings float64 in?"
        assert found.dtype == torch.float32, told
    generator = torch.Generator().manual_seed(0)
    nudges = [1e-6 * torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in floats(inputs)]

    def total(sign=0.0, leaf=False):
        moves = iter(nudges)
        moved = mapped(lambda x: (x + sign * next(moves)).detach().requires_grad_(leaf), inputs)
        outs = floats((answer(*moved),))
        weighted = [(out * (torch.arange(out.numel()).view(out.shape) % 7 - 2.5)).sum() for out in outs]
        return sum(weighted), floats(moved)

    value, leaves = total(leaf=True)
    told = f"{name}: gradients are cut off. No .detach(), .numpy() or .item() on the way."
    assert value.requires_grad, told
    grads = torch.autograd.grad(value, leaves, allow_unused=True)
    told = f"{name}: no gradient reaches one of its inputs."
    assert all(grad is not None for grad in grads), told
    slope = float(sum((grad * nudge).sum() for grad, nudge in zip(grads, nudges, strict=True)))
    change = float(total(1.0)[0] - total(-1.0)[0]) / 2
    told = f"{name}: a gradient is wrong. Is a part detached, or rounded to float32?"
    assert abs(slope - change) <= 1e-4 * abs(change) + 1e-8, told
