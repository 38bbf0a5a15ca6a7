"""Unit 11 and its real model: what reads the file, and what runs it, against independent programs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

import heads_record
import record_model_heads
from attention_figures.helpers.fetch_model import model_file
from attention_figures.recorded_measurements import MODEL, model_record
from unit_11_model import unit_11

pytestmark = pytest.mark.unit11
QUESTION = "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n"
#: What transformers' LlamaForCausalLM finds likeliest after QUESTION, token by token.
ANSWER = [
    *(504, 6376, 4461, 314, 253, 966, 282, 260, 2591, 506, 5264, 24484, 8118, 281, 253, 1678, 18137, 1845, 28, 4170),
    *(4461, 30, 669, 7613, 4149, 975, 282, 260, 970, 653, 3497, 13461, 1420, 30, 1550, 8118, 13351, 260, 2591, 506),
    *(5264, 28, 357, 13242, 5383, 6756, 282, 9159),
]
#: The names of a block's weights in transformers, and whether they are transposed there.
THEIRS = {
    "W_Q": "self_attn.q_proj",
    "W_K": "self_attn.k_proj",
    "W_V": "self_attn.v_proj",
    "W_O": "self_attn.o_proj",
    "W_gate": "mlp.gate_proj",
    "W_up": "mlp.up_proj",
    "W_down": "mlp.down_proj",
    "gamma_1": "input_layernorm",
    "gamma_2": "post_attention_layernorm",
}


@pytest.fixture(scope="module")
def unit() -> dict[str, Any]:
    """The functions of the notebook."""
    return unit_11()


@pytest.fixture(scope="module")
def path() -> Path:
    """The model's file."""
    found = model_file()
    if found is None:
        pytest.skip("the model's file is not here: run `make model`, and set ATTENTION_COURSE_MODEL= (empty)")
    return found


@pytest.fixture(scope="module")
def model(unit: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """The parameters of the model; its tokeniser is put where the notebook has it."""
    fields, tensors = unit["read_gguf"](path)
    unit["tokenizer"] = unit["tokenizer_of"](fields)
    with torch.no_grad():
        yield unit["load_params"](fields, tensors)


# ---------------------------------------------------------------------------------------------------------------------
# With the file


@pytest.mark.nightly
def test_the_reader_gives_every_tensor_as_the_gguf_package_does(unit: dict[str, Any], path: Path):
    _, tensors = unit["read_gguf"](path)
    theirs = gguf.GGUFReader(path).tensors
    assert len(theirs) == 272 and [tensor.name for tensor in theirs] == list(tensors)
    for tensor in theirs:
        wanted = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        found = unit["dequantise"](*tensors[tensor.name])
        assert found.dtype == np.float32 and np.array_equal(found.view(np.uint32), wanted.view(np.uint32)), tensor.name


@pytest.mark.nightly
def test_the_cache_writes_the_recorded_tokens(unit: dict[str, Any], model: dict[str, Any]):
    tokens = unit["ids_of"](QUESTION)
    caches, new = [(torch.zeros(1, 3, 0, 64),) * 2 for _ in model["blocks"]], tokens
    found: list[int] = []
    while len(found) < len(ANSWER):
        logits, caches = unit["llama_step"](torch.tensor([new]), caches, model, **unit["SIZES"])
        new = [int(logits[0, -1].argmax())]
        found += new
    assert found == ANSWER and len(ANSWER) == 48


@pytest.mark.nightly
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs the extra `oracle`")
def test_logits_and_greedy_tokens_are_those_of_transformers(unit: dict[str, Any], model: dict[str, Any]):
    theirs = by_transformers(model)
    tokens = torch.tensor([unit["ids_of"](unit["STORY"])[:256]])
    wanted = theirs(tokens).logits
    assert tokens.shape == (1, 256) and float(wanted.abs().max()) > 10
    assert float((unit["llama_logits"](tokens, model, **unit["SIZES"]) - wanted).abs().max()) < 1e-4
    prompt = torch.tensor([unit["ids_of"](QUESTION)])
    written = theirs.generate(prompt, max_new_tokens=48, min_new_tokens=48, do_sample=False, pad_token_id=0)
    assert written[0, prompt.shape[1] :].tolist() == ANSWER


def by_transformers(params: dict[str, Any]) -> Any:
    """A LlamaForCausalLM with these weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
    )
    weights = {f"{name}.weight": params["W_E"] for name in ("model.embed_tokens", "lm_head")}
    weights["model.norm.weight"] = params["gamma_f"]
    for layer, block in enumerate(params["blocks"]):
        for ours, name in THEIRS.items():
            weights[f"model.layers.{layer}.{name}.weight"] = block[ours].T if block[ours].dim() == 2 else block[ours]
    found = LlamaForCausalLM(config).eval()
    found.load_state_dict(weights, strict=True)
    return found


@pytest.mark.nightly
def test_the_tool_finds_the_recorded_heads_but_for_rounding(path: Path):
    made, kept = record_model_heads.record(path)["texts"], heads_record.RECORD["texts"]
    for ours, theirs in zip(made, kept, strict=True):
        n = len(ours["tokens"])
        both = [[heads_record.decoded(head, n) for row in one["heads"] for head in row] for one in (ours, theirs)]
        assert ours["tokens"] == theirs["tokens"] and np.abs(np.subtract(*both)).max() <= 1


# ---------------------------------------------------------------------------------------------------------------------
# Without it


def written(path: Path, architecture: str = "llama", form: gguf.GGMLQuantizationType | None = None) -> Path:
    """A small GGUF file."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(2)
    writer.add_embedding_length(64)
    writer.add_array("tokenizer.ggml.tokens", ["a", "Ġb"])
    numbers = np.random.default_rng(0).normal(size=(6, 64)).astype(np.float32)
    for name, kind in {"gain": None, "wide": gguf.GGMLQuantizationType.Q8_0, "narrow": form}.items():
        data = numbers if kind is None else gguf.quants.quantize(numbers, kind)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_small_file_is_read_as_the_gguf_package_reads_it(unit: dict[str, Any], tmp_path: Path):
    path = written(tmp_path / "small.gguf", form=gguf.GGMLQuantizationType.Q4_1)
    fields, tensors = unit["read_gguf"](path)
    assert fields["general.architecture"] == "llama" and fields["llama.block_count"] == 2
    assert fields["tokenizer.ggml.tokens"] == ["a", "Ġb"]
    assert [form for form, _, _ in tensors.values()] == ["F32", "Q8_0", "Q4_1"]
    for tensor in gguf.GGUFReader(path).tensors:
        wanted = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(unit["dequantise"](*tensors[tensor.name]), wanted), tensor.name


@pytest.mark.parametrize(
    "kept, told",
    [(0, "not a GGUF file: name another one"), (3, "not a GGUF"), (7, "cut off or damaged: delete it, and fetch it")]
    + [(part, "cut off or damaged: delete it, and fetch it again") for part in (30, 90, 400, -40)],
)
def test_a_file_that_is_cut_off_is_refused_in_one_line(unit: dict[str, Any], tmp_path: Path, kept: int, told: str):
    path = written(tmp_path / "small.gguf", form=gguf.GGMLQuantizationType.Q4_1)
    path.write_bytes(path.read_bytes()[:kept])
    assert told in refused(unit, unit["read_gguf"], path)


def test_another_form_or_another_model_is_refused_in_one_line(unit: dict[str, Any], tmp_path: Path):
    path = written(tmp_path / "small.gguf", form=gguf.GGMLQuantizationType.Q5_0)
    assert "narrow.weight in form 6" in (said := refused(unit, unit["read_gguf"], path))
    assert "F32, Q4_1, Q8_0: take the Q4_1 file" in said
    for name in ("gpt2", "llama"):
        read = unit["read_gguf"](written(tmp_path / f"{name}.gguf", name))
        said = refused(unit, unit["load_params"], *read)
        assert f"a model {name} of 2 layers of width 64: take SmolLM2-135M" in said


def test_a_text_without_tokens_is_refused_in_one_line(unit: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    small = {"tokens": ["a", "b", "ab"], "token_type": [1, 1, 1], "merges": ["a b"]}
    tokenizer = unit["tokenizer_of"]({f"tokenizer.ggml.{name}": value for name, value in small.items()})
    monkeypatch.setitem(unit, "tokenizer", tokenizer)
    assert unit["ids_of"]("aab") == [0, 2]
    assert "empty: write a word at least" in refused(unit, unit["ids_of"], "")
    for text in ("abc", "\x04", "cab"):
        assert "leave them out" in refused(unit, unit["ids_of"], text)


def refused(unit: dict[str, Any], function: Any, *arguments: Any) -> str:
    """The one line with which a function of the notebook refuses its arguments."""
    with pytest.raises(unit["OneLine"]) as problem:
        function(*arguments)
    (line,) = problem.value._render_traceback_()
    assert "\n" not in line and line.endswith(".")
    return line


def test_the_record_meets_what_the_unit_promises():
    """Ten tokens in a CPU second, and at 256 tokens at most a quarter slower than at 16."""
    record = model_record()
    assert record["speed 16"] > 10 and record["speed 256"] > 0.75 * record["speed 16"]
    assert MODEL.stat().st_size < 40_000
