"""The GPU record of unit 9: it refuses without a GPU, and what it measures is complete and can be shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import record_gpu_times
from attention_figures import recorded_measurements
from attention_figures.recorded_measurements import gpu_record as gpu_record_of_course
from record_gpu_times import Recorder, Sizes, record

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
SMALL = Sizes(
    heads=2,
    d_head=8,
    lengths=(6, 10),
    loop_limit=6,
    dtypes=(torch.bfloat16, torch.float32),
    memory_lengths=(6, 10),
    lstm_lengths=(5,),
    lstm_width=8,
    lstm_heads=2,
    decode_heads=4,
    decode_groups=(4, 2, 1),
    decode_lengths=(7,),
    opening=(2, 6, 8),
    matmul=16,
    copy=64,
    block=4,
    warmup=1,
    repeats=3,
    compiled=False,
)


@pytest.fixture(scope="module")
def small():
    return json.loads(json.dumps(record(CPU, SMALL, ["python", "tools/record_gpu_times.py", "a file.json"])))


@pytest.mark.skipif(torch.cuda.is_available(), reason="here there is a GPU")
def test_without_a_gpu_it_refuses_in_one_line_and_writes_nothing(tmp_path):
    target = tmp_path / "record.json"
    command = [sys.executable, str(ROOT / "tools" / "record_gpu_times.py"), str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"gpu_record: {record_gpu_times.NO_GPU}.\n"
    assert not target.exists()


def test_attentions_agree_with_the_library():
    torch.manual_seed(0)
    Q, K, V = (torch.randn(2, 3, 11, 5, dtype=torch.float64) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(Q, K, V)
    for block in (1, 4, 11, 20):
        assert torch.allclose(record_gpu_times.tiled(Q, K, V, block), expected)
    assert torch.allclose(record_gpu_times.loops(Q, K, V), expected)
    assert torch.allclose(record_gpu_times.batched(Q, K, V), expected)
    for variant in record_gpu_times.variants(CPU, Sizes(compiled=False)):
        with variant.alone():
            assert torch.allclose(variant.attention(Q, K, V), expected), variant.name


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_both_ways_to_decode_agree_with_attention_over_repeated_heads(groups):
    torch.manual_seed(0)
    q = torch.randn(1, groups, 4 // groups, 5, dtype=torch.float64)
    K, V = (torch.randn(1, groups, 7, 5, dtype=torch.float64) for _ in range(2))
    repeated = [X.repeat_interleave(4 // groups, 1) for X in (K, V)]
    expected = torch.nn.functional.scaled_dot_product_attention(q.reshape(1, 4, 1, 5), *repeated).reshape(q.shape)
    for way in record_gpu_times.DECODERS.values():
        assert torch.allclose(way(q, K, V), expected)


def test_the_kernel_behind_a_call_is_told():
    Q = torch.randn(1, 2, 8, 4)
    flash, math = (record_gpu_times.Variant("", torch.nn.functional.scaled_dot_product_attention, kernel)
                   for kernel in record_gpu_times.KERNELS.values())  # fmt: skip
    for variant, name in ((flash, "flash"), (math, "math")):
        with variant.alone(), torch.no_grad():
            assert record_gpu_times.kernel_of(lambda v=variant: v.attention(Q, Q, Q)) == name


def test_a_slow_job_is_repeated_no_oftener_than_asked_for_and_five_times_at_least():
    assert record_gpu_times.seconds(lambda: None, CPU, warmup=2, repeats=9, enough=0.0)["repeats"] == 5
    assert record_gpu_times.seconds(lambda: None, CPU, warmup=2, repeats=9)["repeats"] == 9


def test_a_record_as_text_has_a_row_to_a_line_and_five_digits():
    made = {"made": {"device": "a chip"}, "rows": [{"n": 3, "took": {"median": 1 / 3}}, {"n": 4}], "left_out": []}
    text = record_gpu_times.as_text(made)
    assert json.loads(text) == made | {"rows": [{"n": 3, "took": {"median": 0.33333}}, {"n": 4}]}
    assert '{"n": 3, "took": {"median": 0.33333}},\n' in text


def test_a_record_names_device_versions_date_and_command(small):
    made = small["made"]
    assert made["torch"] == torch.__version__
    assert made["command"] == "python tools/record_gpu_times.py 'a file.json'"
    assert set(made) == {"device", "driver", "torch", "cuda", "python", "date", "command"}
    assert made["device"] and len(made["date"]) == 10


def test_a_record_holds_every_measurement_with_its_spread(small):
    assert small["left_out"] == []
    seen = {(row["variant"], row["dtype"], row["pass"], row["n"]) for row in small["attention"]}
    passes = ("forward", "forward and backward")
    names = dict.fromkeys(("batched", "tiled", "SDPA", "SDPA flash", "SDPA math"), (6, 10)) | {"loops": (6,)}
    dtypes = ("bfloat16", "float32")
    assert seen == {(name, t, p, n) for name, ns in names.items() for t in dtypes for p in passes for n in ns}
    times = [row["seconds"] for row in small["attention"] + small["decoding"]]
    times += [row[name] for row in small["lstm"] for name in ("lstm", "attention")]
    assert all(0 < t["low"] <= t["median"] <= t["high"] and t["repeats"] == 3 for t in times)
    sizes = [(row["variant"], row["dtype"], row["bytes"]) for row in small["decoding"]]
    wide = list(zip(dtypes, (2, 4), strict=True))
    ways = ("products", "SDPA")
    assert sizes == [(v, t, 2 * groups * 7 * 8 * width) for t, width in wide for groups in (4, 2, 1) for v in ways]
    steps = {"scores = Q Kᵀ", "scores / √d", "softmax", "weights V", "exponentials", "copy of the scores"}
    assert {row["job"] for row in small["opening"]} == {"batched", "tiled", "SDPA", "SDPA flash", "SDPA math"} | steps
    assert {(row["dtype"], row["heads"], row["n"], row["d_head"]) for row in small["opening"]} == {
        ("bfloat16", 2, 6, 8)
    }
    assert {(row["dtype"], row["pass"]) for row in small["lstm"]} == {(t, p) for t in dtypes for p in passes}
    roof = small["roofline"]
    assert set(roof["peak_flops"]) == set(dtypes)
    assert 0 < roof["bandwidth"]["low"] <= roof["bandwidth"]["median"] <= roof["bandwidth"]["high"]


def test_the_course_records_bfloat16_and_float32_with_the_flash_kernel_and_without():
    assert Sizes().dtypes == (torch.bfloat16, torch.float32)
    names = [variant.name for variant in record_gpu_times.variants(torch.device("cuda"), Sizes(compiled=False))]
    assert {"SDPA flash", "SDPA math", "SDPA"} <= set(names)


def test_memory_is_recorded_in_each_dtype_and_a_kernel_that_refuses_is_noted():
    class WithoutFlashInFloat32(Recorder):
        def peak_bytes(self, function, inputs):
            assert torch.allclose(function(*inputs), record_gpu_times.batched(*inputs), atol=0.1)
            if inputs[0].dtype == torch.float32 and len(inputs[0][0, 0]) == 10:
                raise RuntimeError("No available kernel. Aborting execution.\nmore")
            return 7

        def inputs(self, n, dtype, grad=False):
            return Recorder(CPU, self.sizes).inputs(n, dtype, grad)

    recorder = WithoutFlashInFloat32(torch.device("cuda"), SMALL)
    rows = recorder.memory()
    names = ("batched", "tiled", "SDPA flash", "SDPA math")
    seen = [(row["variant"], row["dtype"], row["n"], row["score_matrix_bytes"]) for row in rows]
    sizes = (("bfloat16", 6, 2 * 36 * 2), ("bfloat16", 10, 2 * 100 * 2), ("float32", 6, 2 * 36 * 4))
    assert seen == [(name, *size) for name in names for size in sizes]
    assert [note["what"] for note in recorder.left_out] == [f"memory of {name}, float32, n = 10" for name in names]
    assert {note["why"] for note in recorder.left_out} == {"RuntimeError: No available kernel"}
    assert Recorder(CPU, SMALL).memory() == []


def test_what_cannot_be_measured_is_noted_and_not_guessed():
    recorder = Recorder(CPU, SMALL)

    def fails():
        raise RuntimeError("out of memory\nmore lines")

    assert recorder.time("a kernel", fails) is None
    assert recorder.left_out == [{"what": "a kernel", "why": "RuntimeError: out of memory"}]


def test_the_record_that_ships_with_the_course_was_made_on_a_gpu_and_reaches_the_notebook():
    made = gpu_record_of_course()
    assert made == json.loads((ROOT / record_gpu_times.DEFAULT_FILE).read_text(encoding="utf-8"))
    assert made["made"]["cuda"] != "none" and made["made"]["driver"] not in ("none", "unknown")
    assert made["made"]["command"].startswith("python tools/record_gpu_times.py")
    assert set(record_gpu_times.PARTS) < set(made)
    assert {(row["variant"], row["dtype"]) for row in made["attention"]} >= {
        ("SDPA flash", "bfloat16"),
        ("SDPA math", "bfloat16"),
        ("SDPA math", "float32"),
        ("batched", "float32"),
    }


def test_without_a_record_there_is_an_empty_one(monkeypatch, tmp_path):
    monkeypatch.setattr(recorded_measurements, "FILE", tmp_path / "none.json")
    assert recorded_measurements.gpu_record() == {}
