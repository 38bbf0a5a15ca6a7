"""Random numbers in an answer to what leaves nothing to chance."""

from __future__ import annotations

import ast

from ...data import Finding
from ..hunts import is_hunt
from ..posed import Posed
from ..variants.edit import called
from ..variants.programs import tree_of
from .mend import text_of
from .program import DRAWS, OwnProgram

#: What draws.
DRAWING = ("multinomial", "choice", "choices", "standard_normal", "randn", "rand", "normal", "integers", "randint")
DRAWING = (*DRAWING, "bernoulli", "uniform", "random", "shuffle", "permutation", "randperm", "gauss", "sample")


def drawing(posed: Posed, own: OwnProgram) -> Finding | None:
    """The first step that draws, where the plain program does not, and no function is handed in to be tried out."""
    exercise = posed.exercise
    if is_hunt(posed) or exercise.plain is None:
        return None
    if DRAWS.search(ast.unparse(tree_of(exercise.plain))):
        return None
    for node in ast.walk(own.tree):
        if isinstance(node, ast.Call) and called(node)[0] in DRAWING:
            words = f"{text_of(node)} in line {node.lineno} draws random numbers, and nothing is left to chance here."
            return Finding("own-draws", words)
    return None
