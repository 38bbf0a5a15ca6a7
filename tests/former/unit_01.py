"""Answers to unit 01's functions, written from the notebook alone."""

import numpy as np


def _weights(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def embed__wrong_one_hot_not_cleared(tokens, E):
    """One one-hot vector serves all tokens and is never set back to zero, so a row holds all words met so far."""
    one_hot = np.zeros(E.shape[1])
    rows = []
    for token in tokens:
        one_hot[token] = 1
        rows.append(E @ one_hot)
    return np.array(rows)


def embed__wrong_integer_table(tokens, E):
    """The table that is filled has the dtype of the token numbers, so the embeddings are cut to whole numbers."""
    rows = np.zeros((len(tokens), E.shape[0]), dtype=tokens.dtype)
    for i, token in enumerate(tokens):
        rows[i] = E[:, token]
    return rows


def embed__wrong_one_hot_too_short(tokens, E):
    """The one-hot vectors are as long as the largest token number in the sentence asks for, not as the vocabulary."""
    one_hot = np.eye(tokens.max() + 1)[tokens]
    return one_hot @ E.T


def embed__wrong_each_word_once(tokens, E):
    """The words are made unique and sorted first, so a repeated word has one row and the order is the vocabulary's."""
    return E.T[np.unique(tokens)]


def embed__wrong_reshaped_and_from_one(tokens, E):
    """Words are counted from 1, so each token gets its neighbour's column, and columns are reshaped, not transposed."""
    picked = E[:, tokens - 1]
    return picked.reshape(len(tokens), E.shape[0])


def embed__right_comparison_product(tokens, E):
    """Makes the one-hot table by comparing tokens with all word numbers and contracts it with E by einsum."""
    one_hot = tokens[:, None] == np.arange(E.shape[1])
    return np.einsum("nv,dv->nd", one_hot, E)


def soft_lookup__wrong_sum_of_unshifted(query, keys, values):
    """The numerator is shifted by the largest score, but the sum below it is that of the unshifted exponentials."""
    scores = keys @ query
    weights = np.exp(scores - scores.max()) / np.exp(scores).sum()
    return weights @ values


def soft_lookup__wrong_nearest_key(query, keys, values):
    """The score is minus the squared distance of query and key in place of their dot product."""
    scores = -((keys - query) ** 2).sum(axis=1)
    return _weights(scores) @ values


def soft_lookup__wrong_mean_of_weighted(query, keys, values):
    """The weighted values are averaged over the keys in place of added up, so the result is n times too small."""
    weights = _weights(keys @ query)
    return (weights[:, None] * values).mean(axis=0)


def soft_lookup__wrong_values_overwritten(query, keys, values):
    """The values are multiplied by their weights in place, so the caller's array is changed."""
    weights = _weights(keys @ query)
    values *= weights[:, None]
    return values.sum(axis=0)


def soft_lookup__wrong_unit_keys_powers_of_two(query, keys, values):
    """Keys are brought to length 1 before the dot product, and the weights are made from powers of 2, not of e."""
    lengths = np.sqrt((keys**2).sum(axis=1, keepdims=True))
    scores = (keys / lengths) @ query
    powers = np.exp2(scores - scores.max())
    return powers / powers.sum() @ values


def soft_lookup__right_running(query, keys, values):
    """Reads the pairs one by one and keeps a largest score, a sum and a mixture that are rescaled on the way."""
    largest = -np.inf
    total = 0.0
    mixture = np.zeros(values.shape[1])
    for key, value in zip(keys, values):
        score = float(query @ key)
        new = max(largest, score)
        fade = np.exp(largest - new)
        power = np.exp(score - new)
        total = total * fade + power
        mixture = mixture * fade + power * value
        largest = new
    return mixture / total


def project_qkv__wrong_three_equal_parts(X, W_Q, W_K, W_V):
    """One product with all weights side by side is cut into three equal parts, which is right only if d_v is d_k."""
    together = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    Q, K, V = np.array_split(together, 3, axis=1)
    return Q, K, V


def project_qkv__wrong_query_scaled(X, W_Q, W_K, W_V):
    """The queries are divided by the square root of d_k already here."""
    Q = X @ W_Q / W_Q.shape[1] ** 0.5
    return Q, X @ W_K, X @ W_V


def project_qkv__wrong_one_from_the_other(X, W_Q, W_K, W_V):
    """The keys are made from the queries and the values from the keys, not all three from X."""
    Q = X @ W_Q
    K = Q @ W_K
    V = K @ W_V
    return Q, K, V


def project_qkv__wrong_list_kept(X, W_Q, W_K, W_V, made=[]):
    """The list of results is a default argument, so later calls still have results of earlier ones in it."""
    for W in (W_Q, W_K, W_V):
        made.append(X @ W)
    return tuple(made)


def project_qkv__wrong_unit_tokens_keys_first(X, W_Q, W_K, W_V):
    """Each token is brought to length 1 first, and the keys stand before the queries in the tuple."""
    lengths = np.sqrt((X**2).sum(axis=1, keepdims=True))
    tokens = X / lengths
    return tokens @ W_K, tokens @ W_Q, tokens @ W_V


def project_token__wrong_reshaped_weights(x, W_Q, W_K, W_V):
    """To put x on the left the weights are reshaped to (d_model, …) in place of transposed."""
    q, k, v = (x @ W.reshape(len(x), -1) for W in (W_Q, W_K, W_V))
    return q, k, v


def project_token__wrong_stays_a_column(x, W_Q, W_K, W_V):
    """The token is made a column of shape (d_model, 1), and the results keep that second axis."""
    column = x[:, None]
    return W_Q @ column, W_K @ column, W_V @ column


def project_token__wrong_value_as_long_as_query(x, W_Q, W_K, W_V):
    """The value is filled by the loop over d_head, so it has d_head entries and not d_v."""
    d_head = len(W_Q)
    q, k, v = np.zeros(d_head), np.zeros(d_head), np.zeros(d_head)
    for i in range(d_head):
        q[i] = W_Q[i] @ x
        k[i] = W_K[i] @ x
        v[i] = W_V[i] @ x
    return q, k, v


def project_token__wrong_sum_over_rows(x, W_Q, W_K, W_V):
    """The products of weights and x are added up over the rows of the weights, not over the features of x."""
    q, k, v = ((W * x).sum(axis=0) for W in (W_Q, W_K, W_V))
    return q, k, v


def project_token__wrong_scaled_and_value_second(x, W_Q, W_K, W_V):
    """The query is divided by the root of d_head, and key and value have changed places in the tuple."""
    q = W_Q @ x / np.sqrt(len(W_Q))
    return q, W_V @ x, W_K @ x


def low_rank_value__wrong_up_used_as_down(X, W_V_down, W_V_up):
    """The two factors have changed roles: down by the transpose of W_V_up, and up by the transpose of W_V_down."""
    narrow = X @ W_V_up.T
    return narrow @ W_V_down.T


def low_rank_value__wrong_added_to_tokens(X, W_V_down, W_V_up):
    """The tokens themselves are added to the messages."""
    message = X @ W_V_down @ W_V_up
    return X + message


def low_rank_value__wrong_map_from_left(X, W_V_down, W_V_up):
    """The square map stands left of X as in texts with columns, so it mixes tokens and mostly does not fit."""
    value_map = W_V_down @ W_V_up
    return value_map @ X


def low_rank_value__wrong_up_undoes_down(X, W_V_down, W_V_up):
    """Going up again is taken for undoing the way down: the pseudoinverse of W_V_down stands in place of W_V_up."""
    narrow = X @ W_V_down
    return narrow @ np.linalg.pinv(W_V_down)


def low_rank_value__wrong_clipped_and_scaled(X, W_V_down, W_V_up):
    """Negative numbers become 0 between the factors, and the narrow vectors are divided by the root of d_head."""
    narrow = X @ W_V_down / W_V_down.shape[1] ** 0.5
    return np.maximum(narrow, 0) @ W_V_up


def attention_parameters__wrong_heads_fill_width(d_model, d_head, n_heads, n_layers):
    """The heads together are taken to be d_model wide, so d_head and n_heads do not enter."""
    return 4 * d_model * d_model * n_layers


def attention_parameters__wrong_up_shared_by_heads(d_model, d_head, n_heads, n_layers):
    """The value-up matrix is counted once for a layer and not once for every head."""
    matrix = d_model * d_head
    layer = 3 * matrix * n_heads + matrix
    return layer * n_layers


def attention_parameters__wrong_products_counted(d_model, d_head, n_heads, n_layers):
    """The square products of query with key and of down with up are counted, not the thin factors."""
    head = 2 * d_model * d_model
    return head * n_heads * n_layers


def attention_parameters__wrong_layers_like_heads(d_model, d_head, n_heads, n_layers):
    """The number of heads is used for the number of layers too, which are equal only in GPT-3."""
    head = 4 * d_model * d_head
    return head * n_heads * n_heads


def attention_parameters__wrong_three_with_biases(d_model, d_head, n_heads, n_layers):
    """A head has three matrices in place of four, and a bias of d_head numbers is counted for each of them."""
    matrix = d_model * d_head + d_head
    return 3 * matrix * n_heads * n_layers


def attention_parameters__right_sum_over_everything(d_model, d_head, n_heads, n_layers):
    """Walks through layers and heads and adds the sizes of the four matrices one by one."""
    count = 0
    for _ in range(n_layers):
        for _ in range(n_heads):
            for rows, columns in ((d_model, d_head),) * 3 + ((d_head, d_model),):
                count += int(rows) * int(columns)
    return count


def pointing_weights__wrong_first_meets_last(X, target):
    """The angles run from 0 to 2π with both ends, so the first and the last key lie on each other."""
    n = len(X)
    angles = np.linspace(0, 2 * np.pi, n)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inverse = np.linalg.pinv(X)
    return inverse @ (300 * circle[target]), inverse @ circle


def pointing_weights__wrong_transpose_for_inverse(X, target):
    """The transpose of X stands in place of its inverse, which is right only for rows at right angles of length 1."""
    n = len(X)
    angles = 2 * np.pi * np.arange(n) / n
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return X.T @ (300 * circle[target]), X.T @ circle


def pointing_weights__wrong_keys_know_targets(X, target):
    """The targets are put into the keys and not into the queries, so token target[i] looks at token i."""
    n = len(X)
    angles = 2 * np.pi * np.arange(n) / n
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inverse = np.linalg.pinv(X)
    return inverse @ (300 * circle), inverse @ circle[target]


def pointing_weights__wrong_keys_grow(X, target):
    """Each key is made longer than the one before it, and a longer key wins for queries meant for its neighbours."""
    n = len(X)
    angles = 2 * np.pi * np.arange(n) / n
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    keys = circle * np.arange(1, n + 1)[:, None]
    inverse = np.linalg.pinv(X)
    return inverse @ (300 * circle[target]), inverse @ keys


def pointing_weights__wrong_chance_and_too_short(X, target):
    """The directions of the keys are drawn anew at each call without a seed, and the queries are only 4 long."""
    rng = np.random.default_rng()
    angles = np.sort(rng.uniform(0, 2 * np.pi, len(X)))
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inverse = np.linalg.pinv(X)
    return inverse @ (4 * circle[target]), inverse @ circle


def pointing_weights__right_parabola(X, target):
    """Puts key j on a parabola at (j, j²), so that a query (2t, -1) scores t² less the squared distance from t."""
    places = np.arange(len(X), dtype=float) - len(X) // 2
    keys = np.stack([places, places**2], axis=1)
    wanted = places[target]
    queries = 8 * np.stack([2 * wanted, -np.ones_like(wanted)], axis=1)
    gram = X @ X.T
    return X.T @ np.linalg.solve(gram, queries), X.T @ np.linalg.solve(gram, keys)


def linear_memory__wrong_each_key_alone(keys, values):
    """Each value is stored over the squared length of its key as if no other key were there."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values):
        square = key @ key
        if square > 0:
            S += np.outer(key, value) / square
    return S


def linear_memory__wrong_corrected_once(keys, values):
    """The pairs are written one after the other with one correction each, so later ones spoil earlier answers."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values):
        square = key @ key
        if square > 0:
            S = S + np.outer(key, value - key @ S) / square
    return S


def linear_memory__wrong_equal_keys_count_once(keys, values):
    """Pairs with equal keys are replaced by one pair with their mean value, which then counts only once."""
    scale = max(np.abs(keys).max(), 1e-300)
    merged_keys, merged_values, places = [], [], []
    for key, value in zip(keys, values):
        for i, known in enumerate(merged_keys):
            if np.abs(known - key).max() < 1e-6 * scale:
                places[i] += 1
                merged_values[i] = merged_values[i] + (value - merged_values[i]) / places[i]
                break
        else:
            merged_keys.append(key)
            merged_values.append(value.astype(float))
            places.append(1)
    return np.linalg.pinv(np.array(merged_keys), rcond=1e-6) @ np.array(merged_values)


def linear_memory__wrong_rounded_again(keys, values):
    """Against the rounding the keys are rounded once more, and any singular value beyond machine precision counts."""
    scale = max(np.abs(keys).max(), 1e-300)
    rounded = np.round(keys / scale, 6) * scale
    return np.linalg.pinv(rounded) @ values


def linear_memory__wrong_unit_keys_and_ridge(keys, values):
    """Keys are brought to length 1 before they are stored, and 0.01 is added on the diagonal before inverting."""
    lengths = np.sqrt((keys**2).sum(axis=1, keepdims=True))
    units = keys / np.where(lengths == 0, 1, lengths)
    table = units.T @ units + 0.01 * np.eye(keys.shape[1])
    return np.linalg.solve(table, units.T @ values)
