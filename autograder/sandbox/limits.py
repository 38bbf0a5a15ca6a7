"""What a submission may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of one submission. Times are wall-clock seconds unless they say otherwise.

    memory_bytes: address space of each process beyond what the libraries take; all processes together may hold one
        and a half times as much.
    processes: of one submission at a time. scratch_bytes: the size of its scratch folder. file_bytes: of a single file.
    """

    seconds_per_exercise: float = 10.0
    seconds_per_cell: float = 10.0
    seconds_per_submission: float = 180.0
    cpu_seconds: int = 120
    memory_bytes: int = 2 * 2**30
    processes: int = 32
    scratch_bytes: int = 64 * 2**20
    file_bytes: int = 64 * 2**20
    open_files: int = 128
    reply_bytes: int = 64 * 2**20
