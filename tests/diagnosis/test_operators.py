"""The changes that are tried of a program: each can be made, and there are words for it in both directions."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import pytest

from autograder.diagnosis.operators.all_changes import edits_of
from autograder.diagnosis.operators.change_descriptions import as_if, in_line, name_of
from autograder.diagnosis.operators.program_edit import MODEL, STUDENT, Program, called, edited, numbered, together
from autograder.exercises import exercises, unit_names

#: By day the first exercise of each unit.
REFERENCES = [
    pytest.param(each, id=each.name, marks=[pytest.mark.nightly] if number else [])
    for unit in unit_names()
    for number, each in enumerate(exercises(unit).values())
]


@pytest.mark.parametrize("exercise", REFERENCES)
def test_a_change_is_worded_without_names_that_nobody_knows(exercise):
    tree = numbered(ast.parse(textwrap.dedent(inspect.getsource(exercise.reference))).body[0])
    program = Program(tree, MODEL, ("n", "d_k"), ("n_heads",), ("X",))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    known = {called(node)[0] for node in calls} | {keyword.arg for node in calls for keyword in node.keywords}
    hidden = set(program.names) - known
    for edit in edits_of(program):
        words = as_if(edit, program.parents, hidden)
        shown = {name for piece in re.findall(r"`([^`]*)`", words) for name in re.findall(r"\w+", piece)}
        assert not shown & hidden, words


@pytest.mark.parametrize("exercise", REFERENCES)
def test_every_change_can_be_made_and_has_words(exercise):
    tree = numbered(ast.parse(textwrap.dedent(inspect.getsource(exercise.reference))).body[0])
    before = ast.dump(tree)
    for whose, words in ((MODEL, lambda one, parents: as_if(one[0], parents)), (STUDENT, in_line)):
        program = Program(tree, whose, ("n", "d_k"), ("n_heads",), ("X",))
        edits = edits_of(program)
        assert len(edits) > 3
        for some in (*((one,) for one in edits), *together(edits)):
            assert words(some, program.parents)
            assert name_of(some[0])
            changed = [edit for edit in some if edit.place != tree.args.number or not isinstance(edit.new, ast.stmt)]
            assert not changed or ast.unparse(edited(tree, changed))
    assert ast.dump(tree) == before
