"""A fifth round: what the grader itself computes for a submission, and how long it looks for a mistake."""

from __future__ import annotations

from .attack import Attack

ATTACKS: tuple[Attack, ...] = (
    Attack(
        "a question of minutes",
        "asks the course's own function, which stands in for its wrong one, for thousands of heads of no width",
        "04_multi_head",
        cells={
            "head_contributions": "def head_contributions(X, W_Q, W_K, W_V, W_O, n_heads, mask=None): return X",
            "from_torch_weights": """
            def from_torch_weights(*args, **kwargs):
                nothing = torch.zeros(3, 0)
                head_contributions(torch.zeros(1, 2, 3), nothing, nothing, nothing, nothing.T, 4096)
            """,
        },
        verdicts={"from_torch_weights": ("timeout",)},
        says="the grader's own processor time",
    ),
    Attack(
        "four hundred names",
        "returns a tuple of 400 names, for the diagnosis to try changes of all of them",
        cells={"causal_mask": f"def causal_mask(n):\n    z = n\n    return ({'z, ' * 400})\n"},
        verdicts={"causal_mask": ("wrong",)},
    ),
    Attack(
        "a thousand assignments",
        "assigns to a thousand names, for the diagnosis to try changes of all of them",
        cells={
            "causal_mask": "".join(
                ("def causal_mask(n):\n", *(f"    z{number} = n\n" for number in range(1_000)), "    return n\n")
            )
        },
        verdicts={"causal_mask": ("wrong",)},
    ),
)
