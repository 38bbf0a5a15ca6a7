"""Defines the exercise `eigenvalue_copying_score`, which scores copying by the eigenvalues of a head's OV circuit."""

import numpy as np
import torch

from ..kit import OF_INPUTS, Leaf, by_columns, exercise, strided

#: Float32 keeps few digits of an eigenvalue of a matrix that isn't symmetric.
LOOSE = {"rtol": 1e-3}
#: The largest condition number of a circuit's factors. Above it float32 may keep no correct digit.
WORST = 30


def eigenvalue_copying_score(W_E, W_V, W_O, W_U) -> Leaf("float", "the score", exactly=OF_INPUTS):
    """Use NumPy's eigenvalues of the reordered product; the tests prove that the whole circuit has the same."""
    small = W_O @ (W_U @ W_E) @ W_V
    if not small.any():
        return torch.zeros((), dtype=W_E.dtype)
    eigenvalues = np.linalg.eigvals(small.double().numpy())
    return torch.tensor(eigenvalues.real.sum() / np.abs(eigenvalues).sum(), dtype=W_E.dtype)


def plain(W_E, W_V, W_O, W_U):
    from_tokens_to_tokens = W_U @ W_E
    turned_round = W_O @ from_tokens_to_tokens @ W_V
    # In float32, torch.linalg.eigvals ends the process at a NaN, which a small change of this code may cause.
    eigenvalues = torch.from_numpy(np.linalg.eigvals(turned_round))
    total = eigenvalues.abs().sum()
    if total == 0:
        return total
    return eigenvalues.real.sum() / total


def circuit(rng, eigenvalues, d_model=None, vocab=None, scale=1.0):
    """Draw the four matrices of a head whose circuit has these eigenvalues and otherwise zeros.

    eigenvalues: a complex one also adds its conjugate.
    """
    blocks = [[[z.real]] if z.imag == 0 else [[z.real, z.imag], [-z.imag, z.real]] for z in map(complex, eigenvalues)]
    d_head = sum(map(len, blocks))
    d_model = d_model or d_head + int(rng.integers(3, 6))
    vocab = vocab or d_model + int(rng.integers(4, 9))
    wanted, at = np.zeros((d_head, d_head)), 0
    for block in blocks:
        wanted[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    while True:
        basis = np.linalg.qr(rng.standard_normal((d_head, d_head)))[0] + 0.2 * rng.standard_normal((d_head, d_head))
        W_E, W_U = rng.standard_normal((vocab, d_model)), rng.standard_normal((d_model, vocab)) / vocab
        W_V = rng.standard_normal((d_model, d_head)) / d_model
        read = W_U @ W_E @ W_V
        if max(np.linalg.cond(basis), np.linalg.cond(read)) < WORST:
            break
    wanted = basis @ wanted @ np.linalg.inv(basis)
    inverse = np.linalg.pinv(read)
    unread = rng.standard_normal((d_head, d_model)) @ (np.eye(d_model) - read @ inverse)
    W_O = wanted @ inverse + np.abs(wanted @ inverse).mean() * unread
    matrices = (scale * W_E, scale * W_V, scale * W_O, scale * W_U)
    # In torch exercises float32 and float64 inputs are the same numbers.
    return dict(zip(NAMES, (one.astype(np.float32).astype(float) for one in matrices), strict=True))


NAMES = "W_E", "W_V", "W_O", "W_U"


def sized(case, criterion, label, matrices, **more):
    vocab, d_model, d_head = *matrices["W_E"].shape, len(matrices["W_O"])
    sizes = {"vocab": vocab, "d_model": d_model, "d_head": d_head}
    return case(criterion, label.format(**sizes), also=sizes, **matrices, **more)


def cases(case):
    rng = case.rng
    mixed = [3, 1.5, 1 + 2j, -1]
    for criterion, label, eigenvalues in (
        ("values", "eigenvalues of all kinds", mixed),
        ("values", "most of them below 0", [-3, -1.5, 0.8, -0.5 + 1j]),
        ("values", "complex ones that turn more than they grow", [0.5 + 2j, 0.4 + 1j, 0.7]),
        ("values", "a large one above 0, many small ones below", [4, -0.5, -0.6, -0.7, -0.4]),
        ("values", "as many above 0 as below, of other sizes", [3, 2, -0.5, -0.3]),
        ("edge cases", "all of them above 0", [2, 1, 0.5]),
        ("edge cases", "all of them below 0", [-2, -1, -0.5]),
        ("edge cases", "a head of width 1, above 0", [1.3]),
        ("edge cases", "a head of width 1, below 0", [-0.7]),
    ):
        yield sized(case, criterion, label, circuit(rng, eigenvalues))
    for name in NAMES:
        silent = circuit(rng, mixed)
        silent[name] = 0 * silent[name]
        yield sized(case, "zero circuits", f"{name} is zero", silent)
    nothing = {name: 0 * one for name, one in circuit(rng, mixed).items()}
    yield sized(case, "zero circuits", "all four are zero", nothing)
    single = circuit(rng, [2.5, 0.5 + 1.5j, -1])
    yield sized(case, "values", "float32", single, dtype=np.float32, **LOOSE)
    yield sized(case, "values", "a head as wide as the stream", circuit(rng, [2, -0.7, 0.3 + 0.6j], d_model=4))
    yield sized(case, "edge cases", "small weights", circuit(rng, mixed, scale=1e-4))
    yield sized(
        case, "edge cases", "very small weights, float32", circuit(rng, mixed, scale=1e-7), dtype=np.float32, **LOOSE
    )
    yield sized(case, "edge cases", "large weights", circuit(rng, mixed, scale=1e4))
    places = dict(zip(NAMES, (strided, by_columns, strided, by_columns), strict=True))
    yield sized(case, "edge cases", "memory that is not contiguous", circuit(rng, mixed), layout=places)
    large = circuit(rng, mixed, vocab=int(rng.integers(60, 70)))
    yield sized(case, "memory", "intermediate tensors with {vocab} tokens", large, watch="vocab*vocab")
    one_token_often = circuit(rng, mixed)
    one_token_often["W_E"][:, 0] += 3.0
    yield sized(case, "values", "embeddings with a part that all tokens share", one_token_often)


def all_by_all(case, arrays):
    """Return a message if an intermediate tensor is as large as the circuit from all tokens to all tokens."""
    if not arrays:
        return None
    return (
        f"your code makes a tensor of shape {arrays[0].shape} for {case.sizes['vocab']} tokens. SmolLM2's 49,152 "
        "tokens would need 9.7 GB for it"
    )


def turned_round(W_E, W_V, W_O, W_U):
    return W_O @ (W_U @ W_E) @ W_V


def over(size):
    """Divide the trace, which is the sum of the real parts, by `size` of the matrix."""

    def wrong(*matrices):
        M = turned_round(*matrices)
        return M.trace() / size(M).clamp_min(1e-300)

    return wrong


def score(eigenvalues):
    """Return the correct quotient."""
    return eigenvalues.real.sum() / eigenvalues.abs().sum().clamp_min(1e-300)


def scored(
    W_E, W_V, W_O, W_U, *, product=turned_round, of=score, guard=True
):  # fmt: skip
    """Compute the score with slips. product: the matrix. of: the score of its eigenvalues."""
    matrix = product(W_E, W_V, W_O, W_U)
    if guard and not matrix.any():
        return torch.zeros((), dtype=W_E.dtype)
    return of(torch.from_numpy(np.linalg.eigvals(matrix)))


def in_city_blocks(z):
    return z.real.sum() / (z.real.abs() + (z + 0j).imag.abs()).sum().clamp_min(1e-300)


def whole(W_E, W_V, W_O, W_U):
    return W_E @ W_V @ W_O @ W_U


MISTAKES = (
    ("whole-circuit", {"product": whole},
     "You build the matrix of all tokens by all tokens, which does not fit for 49,152 tokens. Which smaller product "
     "has the same eigenvalues apart from zeros?"),
    ("without-the-tokens", {"product": lambda W_E, W_V, W_O, W_U: W_O @ W_V},
     "You use only W_V and W_O. Embedding and unembedding belong to the circuit, too."),
    ("embedding-for-unembedding", {"product": lambda W_E, W_V, W_O, W_U: W_O @ (W_E.T @ W_E) @ W_V},
     "You use W_E instead of W_U. They need not be transposes of each other."),
    ("real-parts-alone", {"of": lambda z: z.real.sum() / z.real.abs().sum().clamp_min(1e-300)},
     "Your denominator adds only the sizes of the real parts. An eigenvalue has an imaginary part as well."),
    ("real-plus-imaginary", {"of": in_city_blocks},
     "Your denominator adds real and imaginary parts. That is not the absolute value of a complex number."),
    ("sizes-alone", {"of": lambda z: z.real.abs().sum() / z.abs().sum().clamp_min(1e-300)},
     "You lose the signs of the real parts, so a head that suppresses tokens seems to copy them."),
    ("share-above-zero", {"of": lambda z: (z.real > 1e-9 * z.abs().max()).double().mean().to(z.real.dtype)},
     "You count eigenvalues with a real part above 0. Add up their values instead."),
    ("signs-summed", {"of": lambda z: z.real.sign().mean()},
     "You average signs only. A large eigenvalue counts more than a small one."),
    ("mean-of-cosines", {"of": lambda z: (z.real / z.abs().clamp_min(1e-300)).mean()},
     "You divide each eigenvalue by its own size. Divide one sum by the other."),
    ("largest-alone", {"of": lambda z: z.real[z.abs().argmax()] / z.abs().max().clamp_min(1e-300)},
     "You use only the largest eigenvalue. Sum all of them."),
    ("over-the-largest", {"of": lambda z: z.real.mean() / z.abs().max().clamp_min(1e-300)},
     "You divide the mean real part by the largest size. Divide sum by sum."),
    ("sum-of-real-parts", {"of": lambda z: z.real.sum()},
     "You return the sum of the real parts. Divide it by a sum of sizes, so that it is between -1 and 1."),
    ("squares", {"of": lambda z: z.real.sum() / z.abs().square().sum().sqrt().clamp_min(1e-300)},
     "Your denominator is the root of summed squares. Add the sizes of the eigenvalues."),
    ("singular-values", over(lambda M: torch.linalg.svdvals(M).sum()),
     "Your denominator adds singular values. They differ from the sizes of the eigenvalues."),
    ("frobenius-norm", over(lambda M: M.norm()),
     "Your denominator is the Frobenius norm of the product. Add the absolute values of its eigenvalues."),
    ("diagonal", over(lambda M: M.diagonal().abs().sum()),
     "Your denominator adds the sizes on the diagonal of the product. They are not its eigenvalues, although both "
     "have the same sum."),
    ("symmetric-part", over(lambda M: torch.linalg.eigvalsh(M + M.T).abs().sum() / 2),
     "You average the product with its transpose. That changes its eigenvalues."),
    ("symmetric", lambda *matrices: score(torch.linalg.eigvalsh(turned_round(*matrices)) + 0j),
     "You use eigvalsh, which takes the matrix for a symmetric one and reads one half of it. A circuit is not "
     "symmetric."),
    ("size-of-the-sum", {"of": lambda z: z.real.sum() / z.sum().abs().clamp_min(1e-300)},
     "Your denominator is the absolute value of the sum. Take the absolute values first, then add them."),
    ("zero-gives-nan", {"guard": False, "of": lambda z: z.real.sum() / z.abs().sum()},
     "A zero circuit gives 0/0. Look at the denominator before you divide."),
    ("something-added-below", {"of": lambda z: z.real.sum() / (z.abs().sum() + 1e-8)},
     "You add something to the denominator. That changes the score where the weights are small."),
)  # fmt: skip

EXERCISE = exercise(
    eigenvalue_copying_score,
    slipped=scored,
    made=all_by_all,
    library="torch",
    credit={"values": 0.5, "memory": 0.2, "edge cases": 0.2, "zero circuits": 0.1},
)
