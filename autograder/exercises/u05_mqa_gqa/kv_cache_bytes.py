"""Defines the exercise `kv_cache_bytes`, which counts the memory of all cached keys and values."""

import numpy as np

from ..kit import Leaf, exercise, size


def kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> Leaf("int", "the number of bytes"):
    sizes = np.array([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value], dtype=object)
    return int(np.prod(sizes))


def plain(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    values_per_token = 2 * n_layers * n_kv_heads * d_head
    all_values = values_per_token * n_tokens * batch
    return all_values * bytes_per_value


def cases(case):
    batch = {"batch": size("batch")}
    for one in (batch, {"bytes_per_value": 4}, batch):
        width = {"bytes_per_value": int(case.rng.choice([1, 4, 8]))}
        byte = "byte" if width["bytes_per_value"] == 1 else "bytes"
        label = f"{{n_layers}} layers, batch {{batch}}, {{bytes_per_value}} {byte} per value"
        yield case("values", label, **batch, **width)
        yield case("defaults", "{n_layers} layers, batch and bytes left out")
        yield case("defaults", "one of the two by name", by_name="batch bytes_per_value", **one)
    yield case("edge cases", "no token yet", n_layers=12, n_kv_heads=4, d_head=64, n_tokens=0)
    large = {"n_layers": 10**4 + 1, "n_kv_heads": 10**4 + 7, "d_head": 10**4 + 9, "n_tokens": 10**5 + 3}
    yield case("edge cases", "more than 2^53 bytes", **large, batch=3)
    ones = {"n_layers": 1, "n_kv_heads": 1, "d_head": 1, "n_tokens": 1}
    yield case("edge cases", "one layer, one head, one number, one token, one byte", **ones, batch=1, bytes_per_value=1)
    odd = {"n_layers": 5, "n_kv_heads": 3, "d_head": 7, "n_tokens": 11}
    yield case("edge cases", "3 bytes per value", **odd, batch=2, bytes_per_value=3)


def counted(formula, width=2):
    """Count by `formula`, with the signature of the function. width: the default number of bytes per value."""

    def wrong(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=width):
        return formula(n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value)

    return wrong


def divided_by(unit):
    """Give the size of the cache in a larger unit than bytes."""
    return counted(lambda L, g, d, n, b, w: 2 * L * g * d * n * b * w / unit)


#: Ordinary caches have fewer than 2^31 bytes, so code that counts in 32 bits fails only in the edge case.
RANGES = {"n_layers": range(13, 25), "n_kv_heads": range(3, 9), "d_head": range(50, 80), "n_tokens": range(90, 900)}
UNITS = {"gigabytes": 1e9, "gibibytes": 2**30, "megabytes": 1e6, "mebibytes": 2**20}

MISTAKES = (
    ("keys-only", counted(lambda L, g, d, n, b, w: L * g * d * n * b * w),
     "You count only keys or only values, but the cache keeps both."),
    ("weights-counted", counted(lambda L, g, d, n, b, w: 2 * L * g * d * g * d * w),
     "You count the weights of the projections. The cache holds keys and values of tokens."),
    ("width-shared-by-heads", counted(lambda L, g, d, n, b, w: 2 * L * g * (d // g) * n * b * w),
     "You take d_head for the width of all heads together. It is that of one head."),
    ("added-not-multiplied", counted(lambda L, g, d, n, b, w: 2 * L * (g + d) * n * b * w),
     "You add somewhere instead of multiplying."),
    ("bytes-of-values-only", counted(lambda L, g, d, n, b, w: L * g * d * n * b + L * g * d * n * b * w),
     "You don't treat keys and values alike. Check the brackets."),
    ("always-two-bytes", counted(lambda L, g, d, n, b, w: 2 * L * g * d * n * b * 2), "You don't use "
                                                                                      "bytes_per_value."),
    ("kilobytes", counted(lambda L, g, d, n, b, w: 2 * L * g * d * n * b * w // 1024),
     "You return units of 1,024 bytes. Return bytes."),
    *((name, divided_by(unit), f"You return {name}. Return bytes, a whole number that is not divided.")
      for name, unit in UNITS.items()),
    ("default-four-bytes", counted(lambda L, g, d, n, b, w: 2 * L * g * d * n * b * w, width=4),
     "You take 4 bytes for a value by default. The default is 2 (half precision)."),
)  # fmt: skip

EXERCISE = exercise(
    kv_cache_bytes, credit={"values": 0.6, "defaults": 0.25, "edge cases": 0.15}, library="torch", ranges=RANGES
)
