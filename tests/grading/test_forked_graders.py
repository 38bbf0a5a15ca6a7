"""Grading processes are forked, perhaps from one in which torch has calculated on several threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autograder.running.sandbox import preflight

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import shutil, sys
from pathlib import Path

import torch

torch.set_num_threads(2)
torch.rand(600, 600) @ torch.rand(600, 600)
torch.nn.functional.scaled_dot_product_attention(*torch.rand(3, 8, 64, 16))

from autograder.grading.whole_class import grade_class, handed_in

root, unit = Path(sys.argv[1]), "03_masking"
(root / "grading" / "submitted" / "ada" / unit).mkdir(parents=True)
for folder in ("notebooks", "solutions"):
    shutil.copytree(Path(sys.argv[2]) / folder / unit, root / folder / unit)
shutil.copy(root / "solutions" / unit / f"{unit}.ipynb", root / "grading" / "submitted" / "ada" / unit)
(graded,) = grade_class(root, handed_in(root))
print({verdict.verdict for verdict in graded.verdicts})
"""


@pytest.mark.skipif(preflight() is not None, reason=str(preflight()))
def test_a_process_that_used_threads_can_be_forked_to_grade(tmp_path):
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(ROOT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "{'right'}", done.stderr
