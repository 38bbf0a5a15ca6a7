"""Unit 8, induction heads: answers to the exercises as students might write them, four wrong and one right each."""

import math
from collections import defaultdict

import torch
import torch.nn.functional as F


def _run_attention_only(tokens, weights):
    """The given model of section 5: (logits, patterns)."""
    n = tokens.shape[1]
    may_attend = torch.ones(n, n, dtype=torch.bool).tril()
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    patterns = []
    for block in weights["blocks"]:
        scores = (x @ block["W_Q"]) @ (x @ block["W_K"]).mT
        scores = scores / math.sqrt(block["W_Q"].shape[1])
        A = scores.masked_fill(~may_attend, -torch.inf).softmax(dim=-1)
        x = x + A @ x @ block["W_V"] @ block["W_O"]
        patterns.append(A)
    return x @ weights["W_U"], patterns


# ------- 8.1 repeated_sequences
def repeated_sequences__wrong_ninth_each_token_in_a_row(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Wrong: repeats each token in place (a a b b c c) instead of the whole block (a b c a b c)."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    source = torch.arange(period * repeats) // repeats
    return block.gather(1, source.expand(batch, -1))


def repeated_sequences__wrong_ninth_draw_lies_on_its_side(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Wrong: draws (period, batch) and transposes, so the blocks are not those of the documented draw."""
    columns = torch.randint(vocab_size, (period, batch), generator=generator)
    return torch.cat([columns] * repeats, dim=0).T.contiguous()


def repeated_sequences__wrong_ninth_row_doubles(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Wrong: appends the whole row to itself each time, so three repeats give four blocks, four repeats eight."""
    row = torch.randint(vocab_size, (batch, period), generator=generator)
    for _ in range(repeats - 1):
        row = torch.hstack([row, row])
    return row


def repeated_sequences__wrong_ninth_table_of_floats(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Wrong: fills a table of torch.zeros, so the tokens come back as float32 and not as int64."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    tokens = torch.zeros(batch, period * repeats)
    for copy_number in range(repeats):
        start = copy_number * period
        tokens[:, start : start + period] = block
    return tokens


def repeated_sequences__right_ninth_kronecker(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Right: the row is the Kronecker product of a row of ones with the block."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return torch.kron(torch.ones(1, repeats, dtype=block.dtype), block)


# ------- 8.2 previous_token_score
def previous_token_score__wrong_ninth_share_of_winners(weights: torch.Tensor) -> torch.Tensor:
    """Wrong: gives the share of rows whose largest weight is on the previous token, not the mean weight there."""
    n = weights.shape[-1]
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    favourite = weights[..., 1:, :].argmax(dim=-1)
    wanted = torch.arange(n - 1, device=weights.device)
    return (favourite == wanted).to(weights.dtype).mean(dim=-1)


def previous_token_score__wrong_ninth_flat_start(weights: torch.Tensor) -> torch.Tensor:
    """Wrong: steps through the flattened pattern from entry 1, which is the diagonal from i to i + 1."""
    n = weights.shape[-1]
    flat = weights.flatten(-2)
    return flat[..., 1 :: n + 1].sum(dim=-1) / max(n - 1, 1)


def previous_token_score__wrong_ninth_lone_zero(weights: torch.Tensor) -> torch.Tensor:
    """Wrong: for n = 1 it returns a single float32 zero, whatever the leading axes and the dtype are."""
    *_, n = weights.shape
    if n < 2:
        return torch.tensor(0.0)
    total = 0
    for i in range(1, n):
        total = total + weights[..., i, i - 1]
    return total / (n - 1)


def previous_token_score__wrong_ninth_divides_a_view(weights: torch.Tensor) -> torch.Tensor:
    """Wrong: divides the diagonal in place, and as it is a view, the input's weights change."""
    looks_back = weights.diagonal(offset=-1, dim1=-2, dim2=-1)
    looks_back /= max(looks_back.shape[-1], 1)
    return looks_back.sum(dim=-1)


def previous_token_score__right_ninth_flat_steps(weights: torch.Tensor) -> torch.Tensor:
    """Right: in the flattened pattern the wanted entries begin at n and stand n + 1 apart."""
    n = weights.shape[-1]
    flat = weights.reshape(*weights.shape[:-2], n * n)
    return flat[..., n :: n + 1].sum(dim=-1) / max(n - 1, 1)


# ------- 8.3 prefix_matching_score
def prefix_matching_score__wrong_ninth_all_earlier_copies(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Wrong: adds up the weights after every earlier copy of the token, not only after the one a period ago."""
    n = weights.shape[-1]
    place = torch.arange(n)
    distance = place[:, None] - place
    after_match = ((distance + 1) % period == 0) & (distance >= period - 1) & (place[:, None] >= period)
    after_match &= place >= 1
    found = torch.where(after_match.to(weights.device), weights, torch.zeros_like(weights))
    return found.sum(dim=(-2, -1)) / max(n - period, 1)


def prefix_matching_score__wrong_ninth_one_row_too_many(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Wrong: the mask takes the whole diagonal, so the row period - 1 of the first block is added as well."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    line = (i - j == period - 1).to(weights)
    return torch.einsum("...ij,ij->...", weights, line) / (n - period)


def prefix_matching_score__wrong_ninth_empty_sum_forgets_dtype(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Wrong: where nothing is repeated, the float32 zeros of the start are returned also for float64 weights."""
    n = weights.shape[-1]
    total, rows = torch.zeros(weights.shape[:-2]), 0
    for i in range(period, n):
        total = total + weights[..., i, i - period + 1]
        rows += 1
    return total / rows if rows else total


def prefix_matching_score__wrong_ninth_through_python_numbers(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Wrong: goes through Python lists, so the score is cut off from its input and no gradient flows."""
    lead, n = weights.shape[:-2], weights.shape[-1]
    scores = []
    for pattern in weights.reshape(-1, n, n).tolist():
        picked = [row[i - (period - 1)] for i, row in enumerate(pattern) if i >= period]
        scores.append(sum(picked) / len(picked) if picked else 0.0)
    return torch.tensor(scores, dtype=weights.dtype).reshape(lead)


def prefix_matching_score__right_ninth_trace_of_a_corner(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Right: the wanted line is the main diagonal of a square of n - period rows, and its sum is a trace."""
    n = weights.shape[-1]
    rows = max(n - period, 0)
    square = weights[..., n - rows :, 1 : 1 + rows]
    return torch.einsum("...ii->...i", square).sum(dim=-1) / max(rows, 1)


# ------- 8.4 ov_circuit
def ov_circuit__wrong_ninth_stream_goes_along(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Wrong: adds what the embedding itself does to the logits, the path around the head."""
    stream = W_E
    stream = stream + (stream @ W_V) @ W_O
    return stream @ W_U


def ov_circuit__wrong_ninth_letters_turned(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Wrong: the last two letters of the einsum are swapped, so the row is the logit and the column the token."""
    return torch.einsum("td,dv,ve,eu->ut", W_E, W_V, W_O, W_U)


def ov_circuit__wrong_ninth_squeezed_rows(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Wrong: squeezes all axes of length one, so a vocabulary of one token gives a 0-d tensor and not (1, 1)."""
    rows = []
    for embedding in W_E.split(1):
        written = embedding.mm(W_V).mm(W_O)
        rows.append(written.mm(W_U))
    return torch.stack(rows).squeeze()


def ov_circuit__wrong_ninth_table_in_single_precision(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Wrong: writes the rows into a float32 table, so float64 weights give a float32 result."""
    vocab = W_E.shape[0]
    effect = torch.empty(vocab, vocab)
    for t in range(vocab):
        value = W_E[t] @ W_V
        effect[t] = (value @ W_O) @ W_U
    return effect


def ov_circuit__right_ninth_sum_of_outer_products(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Right: one outer product for each of the d_v channels of the head, then their sum."""
    fetched = (W_E @ W_V).T
    promoted = W_O @ W_U
    return (fetched[:, :, None] * promoted[:, None, :]).sum(dim=0)


# ------- 8.5 copying_score
def copying_score__wrong_ninth_down_the_columns(ov: torch.Tensor) -> torch.Tensor:
    """Wrong: asks which token raises a logit most, that is, compares within columns and not within rows."""
    copied = 0
    for t, logits in enumerate(ov.unbind(dim=1)):
        if int(torch.argmax(logits)) == t:
            copied += 1
    return torch.tensor(copied / len(ov), dtype=ov.dtype)


def copying_score__wrong_ninth_more_likely_than_not(ov: torch.Tensor) -> torch.Tensor:
    """Wrong: a token counts as copied only if its probability after a softmax is above one half."""
    chances = F.softmax(ov, dim=-1)
    return (torch.diagonal(chances) > 0.5).to(ov.dtype).mean()


def copying_score__wrong_ninth_small_filler(ov: torch.Tensor) -> torch.Tensor:
    """Wrong: hides the diagonal behind -1000, which beats the others in a row whose entries are all lower."""
    own = ov.diagonal()
    itself = torch.eye(len(ov), dtype=torch.bool, device=ov.device)
    rival = ov.masked_fill(itself, -1e3).amax(dim=1)
    return (own > rival).to(ov.dtype).mean()


def copying_score__wrong_ninth_diagonal_overwritten(ov: torch.Tensor) -> torch.Tensor:
    """Wrong: overwrites the diagonal of the matrix it was handed with minus infinity."""
    own = ov.diagonal().clone()
    ov.fill_diagonal_(float("-inf"))
    beaten = own > ov.max(dim=1).values
    return beaten.sum() / len(beaten)


def copying_score__right_ninth_rank_in_the_row(ov: torch.Tensor) -> torch.Tensor:
    """Right: counts in each row how many entries reach the diagonal one; it leads if that is itself alone."""
    own = torch.einsum("tt->t", ov)
    at_least_as_large = torch.ge(ov, own.unsqueeze(1)).sum(dim=1)
    return (at_least_as_large == 1).to(ov.dtype).mean()


# ------- 8.6 composition_score
def composition_score__wrong_ninth_cosine_of_entries(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Wrong: takes the cosine of both circuits as long vectors, entry against entry, in place of the product's norm."""
    sizes = W_QK.norm() * W_OV.norm()
    if sizes == 0:
        return W_QK.new_zeros(())
    return (W_QK.flatten() @ W_OV.flatten()).abs() / sizes


def composition_score__wrong_ninth_reading_side(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Wrong: contracts the keys with the rows of W_OV, what the earlier head reads, as the transpose is missing."""

    def size(W):
        return W.square().sum().sqrt()

    if not W_QK.any() or not W_OV.any():
        return W_QK.new_zeros(())
    through = torch.einsum("qk,kr->qr", W_QK, W_OV)
    return size(through) / size(W_QK) / size(W_OV)


def composition_score__wrong_ninth_padded_denominator(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Wrong: adds 1e-8 to the denominator, so that small circuits score far too low."""
    norm = torch.linalg.matrix_norm
    return norm(W_OV @ W_QK.mT) / (norm(W_QK) * norm(W_OV) + 1e-8)


def composition_score__wrong_ninth_scales_what_it_got(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Wrong: brings both circuits to norm one in place, so the caller's matrices change."""

    def unit(W):
        size = torch.linalg.vector_norm(W)
        if size > 0:
            W /= size
        return W

    return torch.linalg.vector_norm(unit(W_QK) @ unit(W_OV).T)


def composition_score__right_ninth_rows_against_rows(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Right: scales both to moderate size first, and takes the products of all rows with all rows."""
    sizes = W_QK.abs().amax(), W_OV.abs().amax()
    if min(sizes) == 0:
        return W_QK.new_zeros(())
    read, written = W_QK / sizes[0], W_OV / sizes[1]
    met = (read[:, None, :] * written[None, :, :]).sum(dim=-1)
    length = torch.linalg.vector_norm
    return length(met) / length(read) / length(written)


# ------- 8.7 ablate_head
def ablate_head__wrong_ninth_slice_is_no_copy(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Wrong: takes [:] for a copy, as of a list, and so writes the zeros into the input."""
    kept = head_outputs[:]
    kept[:, head] = 0
    return kept


def ablate_head__wrong_ninth_a_position_goes(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Wrong: the mask lies along the positions, so position number `head` is silenced in all heads."""
    batch, heads, n, width = head_outputs.shape
    stays = (torch.arange(n) != head).reshape(n, 1)
    return torch.where(stays.to(head_outputs.device), head_outputs, torch.zeros_like(head_outputs))


def ablate_head__wrong_ninth_others_make_up(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Wrong: scales the other heads up by h / (h - 1) to make up for the silent one, as dropout would."""
    heads = head_outputs.shape[1]
    gates = torch.full((heads,), heads / max(heads - 1, 1), dtype=head_outputs.dtype)
    gates[head] = 0.0
    return torch.einsum("bhnd,h->bhnd", head_outputs, gates.to(head_outputs.device))


def ablate_head__wrong_ninth_counted_from_the_end(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Wrong: takes the later heads by a negative start, which is 0 for the last head and then takes all of them."""
    later = head_outputs.shape[1] - head - 1
    nothing = torch.zeros_like(head_outputs[:, :1])
    return torch.cat([head_outputs[:, :head], nothing, head_outputs[:, -later:]], dim=1)


def ablate_head__right_ninth_taken_apart_and_stacked(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Right: takes the heads apart, changes one entry of the list, and stacks them again."""
    parts = list(torch.unbind(head_outputs, dim=1))
    parts[head] = torch.zeros_like(parts[head])
    return torch.stack(parts, dim=1)


# ------- 8.8 in_context_learning_score
def in_context_learning_score__wrong_ninth_whole_stretches(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Wrong: averages everything from `late` on and everything up to `early`, not the two positions alone."""
    curve = losses.mean(dim=0)
    beginning, end = curve[: early + 1], curve[late:]
    return end.mean() - beginning.mean()


def in_context_learning_score__wrong_ninth_texts_for_positions(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Wrong: averages over the positions and compares two texts of the batch."""
    means = losses.mean(dim=1)
    return means[late] - means[early]


def in_context_learning_score__wrong_ninth_puts_in_order(losses: torch.Tensor, early: int, late: int) -> torch.Tensor:
    """Wrong: sorts the two positions first, so the sign is wrong where `early` is the later one."""
    first, second = sorted((early, late))
    total = sum(row[second] - row[first] for row in losses)
    return total / len(losses)


def in_context_learning_score__wrong_ninth_list_of_one(losses: torch.Tensor, early: int, late: int) -> torch.Tensor:
    """Wrong: keeps the column axis, so the result has the shape (1,) and is no scalar."""
    gain = losses[:, late : late + 1] - losses[:, early : early + 1]
    return gain.mean(dim=0)


def in_context_learning_score__right_ninth_difference_of_a_pair(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Right: picks the two columns, takes the difference within each text, then the mean."""
    pair = losses.index_select(1, torch.tensor([early, late], device=losses.device))
    return torch.diff(pair, dim=1).mean()


# ------- 8.9 build_induction_circuit
def build_induction_circuit__wrong_ninth_only_the_start_is_punished(vocab_size: int, n_ctx: int) -> dict:
    """Wrong: only position 0 is kept from matching, so from the third copy on all matches share the weight."""
    V, n = vocab_size, n_ctx
    d_model = 3 * V + n
    token, note, answer, place = (slice(a, b) for a, b in ((0, V), (V, 2 * V), (2 * V, 3 * V), (3 * V, d_model)))
    sharp = 30.0

    W_E = torch.zeros(V, d_model)
    W_E[:, token] = torch.eye(V)
    W_pos = torch.zeros(n, d_model)
    W_pos[:, place] = torch.eye(n)

    first = {"W_Q": torch.zeros(d_model, n), "W_K": torch.zeros(d_model, n)}
    first["W_Q"][place] = sharp * math.sqrt(n) * torch.diag(torch.ones(n - 1), -1)
    first["W_K"][place] = torch.eye(n)
    first["W_V"] = torch.zeros(d_model, V)
    first["W_V"][token] = torch.eye(V)
    first["W_O"] = torch.zeros(V, d_model)
    first["W_O"][:, note] = torch.eye(V)

    width = V + 1
    second = {"W_Q": torch.zeros(d_model, width), "W_K": torch.zeros(d_model, width)}
    second["W_Q"][token, :V] = sharp * math.sqrt(width) * torch.eye(V)
    second["W_Q"][token, V] = sharp * math.sqrt(width)
    second["W_K"][note, :V] = torch.eye(V)
    second["W_K"][place.start, V] = -2.0
    second["W_V"] = first["W_V"].clone()
    second["W_O"] = torch.zeros(V, d_model)
    second["W_O"][:, answer] = torch.eye(V)

    W_U = torch.zeros(d_model, V)
    W_U[answer] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_ninth_copies_the_note(vocab_size: int, n_ctx: int) -> dict:
    """Wrong: the second layer's values read the note and not the token, so the current token is predicted again."""
    sizes = {"me": vocab_size, "before": vocab_size, "next": vocab_size, "where": n_ctx, "ramp": 1, "one": 1}
    starts, total = {}, 0
    for name, size in sizes.items():
        starts[name], total = total, total + size

    def matrix(rows, columns, *entries):
        W = torch.zeros(rows, columns)
        for r, c, value in entries:
            W[r, c] = value
        return W

    def read(field, width, value=1.0, shift=0):
        count = sizes[field]
        pairs = [(starts[field] + k, k + shift, value) for k in range(count) if 0 <= k + shift < width]
        return matrix(total, width, *pairs)

    def write(field):
        return matrix(sizes[field], total, *((k, starts[field] + k, 1.0) for k in range(sizes[field])))

    W_pos = write("where")
    W_pos[:, starts["ramp"]] = torch.arange(n_ctx) / n_ctx
    W_pos[:, starts["one"]] = 1.0
    slope = 7.0 * n_ctx
    match = slope + 20.0
    wide = vocab_size + 1
    ask_token, tell_note = read("me", wide, match * math.sqrt(wide)), read("before", wide)
    ask_token[starts["one"], vocab_size] = slope * math.sqrt(wide)
    tell_note[starts["ramp"], vocab_size] = 1.0
    lower = {
        "W_Q": read("where", n_ctx, 25 * math.sqrt(n_ctx), shift=-1),
        "W_K": read("where", n_ctx),
        "W_V": read("me", vocab_size),
        "W_O": write("before"),
    }
    upper = {"W_Q": ask_token, "W_K": tell_note, "W_V": read("before", vocab_size), "W_O": write("next")}
    return {
        "W_E": write("me"),
        "W_pos": W_pos,
        "W_U": read("next", vocab_size),
        "blocks": [lower, upper],
    }


def build_induction_circuit__wrong_ninth_width_forgotten(vocab_size: int, n_ctx: int) -> dict:
    """Wrong: the first layer's scores ignore the division by the root of d_head, so long texts blur the notes."""
    eye_v, eye_n = torch.eye(vocab_size), torch.eye(n_ctx)

    def stack(*parts, width):
        return torch.cat([torch.zeros(part, width) if isinstance(part, int) else part for part in parts])

    V, n = vocab_size, n_ctx
    clock = torch.arange(n, dtype=torch.float32)[:, None]
    ones = torch.ones(n, 1)
    W_E = torch.cat([eye_v, torch.zeros(V, 2 * V + n + 2)], dim=1)
    W_pos = torch.cat([torch.zeros(n, 3 * V), eye_n, clock, ones], dim=1)
    one_back = torch.zeros(n, n)
    one_back[range(1, n), range(n - 1)] = 20.0
    first = {
        "W_Q": stack(3 * V, one_back, 2, width=n),
        "W_K": stack(3 * V, eye_n, 2, width=n),
        "W_V": stack(eye_v, 2 * V + n + 2, width=V),
        "W_O": torch.cat([torch.zeros(V, V), eye_v, torch.zeros(V, V + n + 2)], dim=1),
    }
    root = math.sqrt(V + 1)
    slope = 6.0
    match = slope * n + 15.0
    to_match = F.pad(eye_v, (0, 1))
    last_column = F.one_hot(torch.tensor([V]), V + 1).float()
    second = {
        "W_Q": stack(match * root * to_match, 2 * V + n + 1, slope * root * last_column, width=V + 1),
        "W_K": stack(V, to_match, V + n, last_column, 1, width=V + 1),
        "W_V": stack(eye_v, 2 * V + n + 2, width=V),
        "W_O": torch.cat([torch.zeros(V, 2 * V), eye_v, torch.zeros(V, n + 2)], dim=1),
    }
    return {"W_E": W_E, "W_pos": W_pos, "W_U": stack(2 * V, eye_v, n + 2, width=V), "blocks": [first, second]}


def build_induction_circuit__wrong_ninth_directions_by_lot(vocab_size: int, n_ctx: int) -> dict:
    """Wrong: draws the directions of the fields with global randomness, so no two calls give the same weights."""
    d_model = 3 * vocab_size + n_ctx + 2
    directions = torch.linalg.qr(torch.randn(d_model, d_model, dtype=torch.float64)).Q
    token, note, answer, place, rest = directions.split([vocab_size, vocab_size, vocab_size, n_ctx, 2])
    height, always = rest[:1], rest[1:]
    steps = torch.arange(n_ctx, dtype=torch.float64)[:, None]
    slope = 8.0
    match = slope * n_ctx + 20.0
    d_head = vocab_size + 1
    previous = torch.cat([place[1:], torch.zeros(1, d_model)])
    first = {
        "W_Q": 30.0 * math.sqrt(n_ctx) * previous.T,
        "W_K": place.T,
        "W_V": token.T,
        "W_O": note,
    }
    second = {
        "W_Q": math.sqrt(d_head) * torch.cat([match * token, slope * always]).T,
        "W_K": torch.cat([note, height]).T,
        "W_V": token.T,
        "W_O": answer,
    }
    ends = {"W_E": token, "W_pos": place + steps * height + always, "W_U": answer.T}
    plain = {name: W.float().contiguous() for name, W in ends.items()}
    plain["blocks"] = [{name: W.float().contiguous() for name, W in block.items()} for block in (first, second)]
    return plain


def build_induction_circuit__right_ninth_parabola(vocab_size: int, n_ctx: int) -> dict:
    """Right: the first layer finds i - 1 as the top of the parabola 2 (i - 1) j - j * j."""
    V = vocab_size
    me, before, coming = range(0, V), range(V, 2 * V), range(2 * V, 3 * V)
    place, square, one = 3 * V, 3 * V + 1, 3 * V + 2
    d_model = 3 * V + 3
    i = torch.arange(n_ctx, dtype=torch.float32)

    W_E = torch.zeros(V, d_model)
    W_E[range(V), me] = 1.0
    W_pos = torch.zeros(n_ctx, d_model)
    W_pos[:, place], W_pos[:, square], W_pos[:, one] = i, i * i, 1.0
    W_U = torch.zeros(d_model, V)
    W_U[coming, range(V)] = 1.0

    def carry(source, target):
        W_V, W_O = torch.zeros(d_model, V), torch.zeros(V, d_model)
        W_V[source, range(V)] = 1.0
        W_O[range(V), target] = 1.0
        return {"W_V": W_V, "W_O": W_O}

    sharp = 32.0
    Q, K = torch.zeros(d_model, 4), torch.zeros(d_model, 4)
    Q[place, 0], Q[one, 0], K[place, 0] = 2 * sharp, -2 * sharp, 1.0
    Q[one, 1], K[square, 1] = -sharp, 1.0
    first = {"W_Q": Q, "W_K": K} | carry(me, before)

    slope = 8.0
    match = slope * n_ctx + 16.0
    root = math.sqrt(V + 1)
    Q, K = torch.zeros(d_model, V + 1), torch.zeros(d_model, V + 1)
    Q[me, range(V)], K[before, range(V)] = match * root, 1.0
    Q[one, V], K[place, V] = slope * root, 1.0
    second = {"W_Q": Q, "W_K": K} | carry(me, coming)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


# ------- 8.10 find_heads
def find_heads__wrong_ninth_latest_match_alone(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Wrong: counts only what followed the latest earlier occurrence, and not the weight after all of them."""
    layers, heads, n, _ = patterns.shape
    ids = tokens.tolist()
    one_back = {i: i - 1 for i in range(1, n)}
    last_seen, followed = {}, {}
    for i, token in enumerate(ids):
        if token in last_seen:
            followed[i] = last_seen[token] + 1
        last_seen[token] = i

    def named(places):
        if not places:
            return []
        even = sum(1 / (i + 1) for i in places) / len(places)
        found = []
        for layer in range(layers):
            for head in range(heads):
                hit = sum(float(patterns[layer, head, i, j]) for i, j in places.items()) / len(places)
                if hit - even > 1 - hit:
                    found.append((layer, head))
        return found

    return named(one_back), named(followed)


def find_heads__wrong_ninth_never_itself(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Wrong: only keys before the query count for induction, so the second of two twins may not look at itself."""
    n = tokens.shape[0]
    before = torch.ones(n, n, dtype=torch.bool).tril(-1)
    repeats = tokens[:, None] == tokens[None, :]
    follows = torch.zeros(n, n, dtype=torch.bool)
    follows[:, 1:] = repeats[:, :-1]
    follows &= before
    alike = torch.ones(n, n, dtype=torch.float64).tril()
    alike = alike / alike.sum(dim=1, keepdim=True)

    def judge(wanted):
        rows = wanted.any(dim=1)
        if not rows.any():
            return []
        hits = (patterns.double() * wanted).sum(dim=-1)[..., rows].mean(dim=-1)
        chance = (alike * wanted).sum(dim=-1)[rows].mean()
        return [tuple(pair) for pair in (hits > (1 + chance) / 2).nonzero().tolist()]

    return judge(before & ~before.tril(-2).bool()), judge(follows)


def find_heads__wrong_ninth_chance_over_all_columns(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Wrong: evenly spread attention is taken over all n columns, and not over the i + 1 that row i may see."""
    n = len(tokens)
    where = torch.arange(n)
    previous = where[:, None] - 1 == where
    shifted = torch.cat([torch.full((1,), -1), where[:-1]])
    same_before = (tokens[:, None] == tokens[shifted]) & (shifted >= 0) & (where <= where[:, None])
    answers = []
    for goal in (previous, same_before):
        busy = goal.sum(dim=1) > 0
        goal = goal[busy].to(torch.float64)
        if len(goal) == 0:
            answers.append([])
            continue
        chance = goal.mean(dim=1).mean()
        score = torch.einsum("lhij,ij->lh", patterns[:, :, busy].double(), goal) / len(goal)
        near = (score - 1).abs() < (score - chance).abs()
        answers.append(sorted((int(a), int(b)) for a, b in near.nonzero()))
    return tuple(answers)


def find_heads__wrong_ninth_the_best_one(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Wrong: names at most one head of each kind, that with the highest score, and not all that pass."""
    n_heads, n = patterns.shape[1], tokens.numel()

    def strongest(pairs):
        rows = sorted({i for i, _ in pairs})
        if not rows:
            return []
        i, j = torch.tensor(pairs).T
        score = patterns[:, :, i, j].double().sum(dim=-1) / len(rows)
        chance = sum(1 / (i + 1) for i, _ in pairs) / len(rows)
        best = int(score.argmax())
        if score.flatten()[best] > 0.5 * (1 + chance):
            return [divmod(best, n_heads)]
        return []

    ids = tokens.tolist()
    back = [(i, i - 1) for i in range(1, n)]
    follow = [(i, m + 1) for i in range(n) for m in range(i) if ids[m] == ids[i]]
    return strongest(back), strongest(follow)


def find_heads__right_ninth_diary_of_followers(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Right: reads the text once with a diary of what followed each token, for all heads at once."""
    followers = defaultdict(list)
    ids = tokens.tolist()
    tally = {kind: [torch.zeros(patterns.shape[:2], dtype=torch.float64), 0.0, 0] for kind in ("back", "follow")}
    for i, token in enumerate(ids):
        if i:
            followers[ids[i - 1]].append(i)
        for kind, places in (("back", [i - 1] if i else []), ("follow", followers[token])):
            if places:
                account = tally[kind]
                account[0] = account[0] + patterns[:, :, i, places].detach().double().sum(dim=-1)
                account[1] += len(places) / (i + 1)
                account[2] += 1

    def passed(hits, even, rows):
        good = 2 * hits > rows + even
        layers, heads = good.shape
        return [(a, b) for a in range(layers) for b in range(heads) if rows and bool(good[a, b])]

    return passed(*tally["back"]), passed(*tally["follow"])


# ------- 8.11 ablate_path
def ablate_path__wrong_ninth_blind_to_directions(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Wrong: blinds the reader to all directions the first layer can write to, and so to part of the embedding."""
    name = {"query": "W_Q", "key": "W_K", "value": "W_V"}[into]
    first, second = weights["blocks"]
    span = torch.linalg.pinv(first["W_O"]) @ first["W_O"]
    reader = second[name] - span @ second[name]
    return _run_attention_only(tokens, {**weights, "blocks": [first, {**second, name: reader}]})


def ablate_path__wrong_ninth_stream_of_the_values(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Wrong: adds the second layer's output to what the values read, so with "value" the logits lose the note too."""

    def attention(q, k, block):
        scores = torch.einsum("bid,bjd->bij", q @ block["W_Q"], k @ block["W_K"]) / block["W_Q"].shape[1] ** 0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(later, float("-inf")).softmax(-1)

    first, second = weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    A1 = attention(start, start, first)
    full = start + A1 @ (start @ first["W_V"]) @ first["W_O"]
    reads = dict.fromkeys(("query", "key", "value"), full)
    reads[into] = start
    A2 = attention(reads["query"], reads["key"], second)
    x = reads["value"]
    x = x + A2 @ (x @ second["W_V"]) @ second["W_O"]
    return x @ weights["W_U"], [A1, A2]


def ablate_path__wrong_ninth_one_root_for_both(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Wrong: divides the second layer's scores by the root of the first layer's d_head, which may be another width."""
    n = tokens.size(1)
    embedded = F.embedding(tokens, weights["W_E"]) + weights["W_pos"][None, :n]
    below, above = weights["blocks"]
    root = math.sqrt(below["W_K"].size(1))
    mask = torch.full((n, n), -torch.inf, dtype=embedded.dtype).triu(1)

    def pattern(Q, K):
        return torch.softmax(Q @ K.transpose(1, 2) / root + mask, dim=2)

    first = pattern(embedded @ below["W_Q"], embedded @ below["W_K"])
    noted = embedded + first @ embedded @ below["W_V"] @ below["W_O"]
    Q, K, V = (
        (embedded if into == reader else noted) @ above["W_" + reader[0].upper()]
        for reader in ("query", "key", "value")
    )
    second = pattern(Q, K)
    return (noted + second @ V @ above["W_O"]) @ weights["W_U"], [first, second]


def ablate_path__wrong_ninth_no_gradients(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Wrong: runs without a record of gradients, so neither logits nor patterns lead back to the weights."""
    patterns = []
    with torch.no_grad():
        n = tokens.shape[1]
        allowed = torch.tril(torch.ones(n, n)) > 0
        x = bare = weights["W_E"][tokens] + weights["W_pos"][:n]
        for layer, block in enumerate(weights["blocks"]):
            seen = {reader: x for reader in ("query", "key", "value")}
            if layer == 1:
                seen[into] = bare
            q, k, v = seen["query"] @ block["W_Q"], seen["key"] @ block["W_K"], seen["value"] @ block["W_V"]
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            A = torch.where(allowed, scores, torch.full_like(scores, -torch.inf)).softmax(dim=-1)
            x = x + A @ v @ block["W_O"]
            patterns.append(A)
        logits = x @ weights["W_U"]
    return logits, patterns


def ablate_path__right_ninth_stream_of_double_width(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Right: gives the note columns of its own in a stream twice as wide, which the blind reader's rows leave out."""
    name = {"query": "W_Q", "key": "W_K", "value": "W_V"}[into]
    first, second = weights["blocks"]

    def nothing_below(W):
        return torch.cat([W, torch.zeros_like(W)], dim=0)

    def twice(W):
        return torch.cat([W, W], dim=0)

    def left(W):
        return torch.cat([W, torch.zeros_like(W)], dim=1)

    wide_first = {key: nothing_below(first[key]) for key in ("W_Q", "W_K", "W_V")}
    wide_first["W_O"] = torch.cat([torch.zeros_like(first["W_O"]), first["W_O"]], dim=1)
    wide_second = {
        key: nothing_below(second[key]) if key == name else twice(second[key]) for key in ("W_Q", "W_K", "W_V")
    }
    wide_second["W_O"] = left(second["W_O"])
    wide = {"W_E": left(weights["W_E"]), "W_pos": left(weights["W_pos"]), "W_U": twice(weights["W_U"])}
    return _run_attention_only(tokens, wide | {"blocks": [wide_first, wide_second]})
