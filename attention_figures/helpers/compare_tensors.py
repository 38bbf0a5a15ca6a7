"""Compares tensors and checks the type, shape and dtype of one."""

import torch


def check_form(name, found, shape, dtype=torch.float64):
    """Assert that `found` is a tensor of this shape and dtype, without NaN."""
    assert found is not None, f"{name} is None: is there a `return`?"
    kind = type(found).__name__
    assert isinstance(found, torch.Tensor), f"{name} should be a tensor and not {kind}."
    told = f"{name} should have the shape {tuple(shape)}, not {tuple(found.shape)}."
    assert found.shape == torch.Size(shape), told
    told = f"{name} should have the dtype {dtype}; it is {found.dtype}."
    assert found.dtype == dtype, told
    assert not found.isnan().any(), f"{name} holds NaN."


def close(result, wanted, tolerance=1e-9):
    """Return whether a tensor has the shape and nearly the entries of a tensor or list."""
    wanted = torch.as_tensor(wanted, dtype=result.dtype)
    alike = result.shape == wanted.shape
    return alike and torch.allclose(result, wanted, rtol=0, atol=tolerance)
