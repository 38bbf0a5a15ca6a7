"""The GPU record of unit 9: it refuses without a GPU, and what it measures is complete and can be shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch

import gpu_record
from gpu_record import Recorder, Sizes, record

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")
SMALL = Sizes(
    heads=2,
    d_head=8,
    lengths=(6, 10),
    loop_limit=6,
    dtypes=(torch.float32, torch.bfloat16),
    lstm_lengths=(5,),
    lstm_width=8,
    decode_heads=4,
    decode_groups=(4, 2, 1),
    decode_lengths=(7,),
    matmul=16,
    copy=64,
    block=4,
    warmup=1,
    repeats=3,
    compiled=False,
)


@pytest.fixture(scope="module")
def small():
    return json.loads(json.dumps(record(CPU, SMALL, ["python", "tools/gpu_record.py", "a file.json"])))


@pytest.mark.skipif(torch.cuda.is_available(), reason="here there is a GPU")
def test_without_a_gpu_it_refuses_in_one_line_and_writes_nothing(tmp_path):
    target = tmp_path / "record.json"
    command = [sys.executable, str(ROOT / "tools" / "gpu_record.py"), str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"gpu_record: {gpu_record.NO_GPU}.\n"
    assert not target.exists()


def test_attentions_agree_with_the_library():
    torch.manual_seed(0)
    Q, K, V = (torch.randn(2, 3, 11, 5, dtype=torch.float64) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(Q, K, V)
    for block in (1, 4, 11, 20):
        assert torch.allclose(gpu_record.tiled(Q, K, V, block), expected)
    assert torch.allclose(gpu_record.loops(Q, K, V), expected)
    assert torch.allclose(gpu_record.batched(Q, K, V), expected)


def test_a_record_names_device_versions_date_and_command(small):
    made = small["made"]
    assert made["torch"] == torch.__version__
    assert made["command"] == "python tools/gpu_record.py 'a file.json'"
    assert set(made) == {"device", "driver", "torch", "cuda", "python", "date", "command"}
    assert made["device"] and len(made["date"]) == 10


def test_a_record_holds_every_measurement_with_its_spread(small):
    assert small["left_out"] == []
    seen = {(row["variant"], row["dtype"], row["pass"], row["n"]) for row in small["attention"]}
    passes = ("forward", "forward and backward")
    names = {"batched": (6, 10), "tiled": (6, 10), "SDPA": (6, 10), "loops": (6,)}
    dtypes = ("float32", "bfloat16")
    assert seen == {(name, t, p, n) for name, ns in names.items() for t in dtypes for p in passes for n in ns}
    times = [row["seconds"] for row in small["attention"] + small["decoding"]]
    times += [row[name] for row in small["lstm"] for name in ("lstm", "attention")]
    assert all(0 < t["low"] <= t["median"] <= t["high"] and t["repeats"] == 3 for t in times)
    assert [row["bytes"] for row in small["decoding"]] == [2 * groups * 7 * 8 * 2 for groups in (4, 2, 1)]
    roof = small["roofline"]
    assert set(roof["peak_flops"]) == set(dtypes)
    assert 0 < roof["bandwidth"]["low"] <= roof["bandwidth"]["median"] <= roof["bandwidth"]["high"]


def test_what_cannot_be_measured_is_noted_and_not_guessed():
    recorder = Recorder(CPU, SMALL)

    def fails():
        raise RuntimeError("out of memory\nmore lines")

    assert recorder.time("a kernel", fails) is None
    assert recorder.left_out == [{"what": "a kernel", "why": "RuntimeError: out of memory"}]


def test_the_notebook_can_show_a_record(small, capsys):
    notebook = nbformat.read(ROOT / "solutions/09_gpu_speed/09_gpu_speed.ipynb", as_version=4)
    source = next(cell.source for cell in notebook.cells if cell.id == "record")
    names: dict = {"Path": Path, "json": json, "FORWARD": {}, "BACKWARD": {}}
    exec(source.partition("\nif RECORD.exists()")[0], names)
    small = {**small, "memory": [{"variant": "batched", "n": 8, "bytes": 512, "score_matrix_bytes": 256}]}
    names["show_record"](small)
    shown = capsys.readouterr().out
    for text in ("made by: python tools/gpu_record.py", "peak float32", "LSTM / attention", "decoding,  4 groups"):
        assert text in shown


def test_a_record_that_ships_with_the_course_was_made_on_a_gpu():
    path = ROOT / gpu_record.DEFAULT_FILE
    if not path.exists():
        pytest.skip("no GPU figures have been recorded yet")
    made = json.loads(path.read_text(encoding="utf-8"))["made"]
    assert made["cuda"] != "none" and made["driver"] != "none"
    assert made["command"].startswith("python tools/gpu_record.py")
