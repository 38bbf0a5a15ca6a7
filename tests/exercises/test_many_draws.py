"""Right answers under many draws: what rounding does is no mistake, and what is a mistake stays one."""

from __future__ import annotations

import numpy as np
import pytest

import partial_marks_many_seeds
import right_answers_many_seeds
from autograder.diagnosis.diagnose import judge
from autograder.exercises import exercises, find_exercise, unit_names
from autograder.exercises.kit import Case, Exercise, Leaf, Mistake
from autograder.grading.in_process import ask_here, judge_function
from autograder.judging.compare_results import LOOSEST, tolerance
from autograder.judging.hidden_cases import pose
from autograder.running import sandbox_messages
from autograder.running.sandbox_messages import Request
from autograder.worker.encode_values import Encoder
from conftest import exercise_names

NAMES = exercise_names()
#: Seeds that no other test draws from.
FIRST, COUNT = 1_000_000, 12


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_the_published_solution_is_right_whatever_is_drawn(name):
    (tally,) = right_answers_many_seeds.put_through(name, range(FIRST, FIRST + COUNT), only_published=True).values()
    assert tally.draws == COUNT and not tally.rejected, tally.rejected


@pytest.mark.parametrize("name", ["layer_norm", "batch_norm", "softmax", "masked_softmax"])
def test_right_answers_in_float32_are_right_whatever_is_drawn(name):
    for answer, tally in right_answers_many_seeds.put_through(name, range(FIRST, FIRST + 8)).items():
        assert not tally.rejected, (answer, tally.rejected)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_a_partly_right_answer_earns_the_same_whatever_is_drawn(name):
    assert not partial_marks_many_seeds.varying(name, range(FIRST, FIRST + COUNT))


def test_where_a_query_with_nothing_allowed_is_wrong_costs_the_same_whatever_is_drawn():
    """In the core a query with nothing to attend to was drawn by chance, and the whole exercise was lost there."""
    answer = next(
        each
        for each in partial_marks_many_seeds.wrong_answers("masked_attention")
        if "uniform_when_empty" in each.__name__
    )
    verdicts = [judge_function(answer, seed=seed, name="masked_attention", named=False) for seed in range(12)]
    assert {tuple(each.name for each in verdict.criteria if not each.met) for verdict in verdicts} == {("edge cases",)}


def test_a_mark_that_depends_on_the_draw_is_told(monkeypatch):
    def embed__wrong_by_chance(tokens, E):
        return E.T[tokens] * (1.0 if tokens[0] % 7 else 2.0)

    monkeypatch.setattr(partial_marks_many_seeds, "wrong_answers", lambda name: [embed__wrong_by_chance])
    (line,) = partial_marks_many_seeds.varying("embed", range(12))
    assert line.startswith("embed__wrong_by_chance: 0.") and " met under " in line


@pytest.mark.nightly
@pytest.mark.parametrize("unit", unit_names())
def test_whatever_is_drawn_the_courses_functions_may_stand_in(unit, monkeypatch):
    """An answer that uses an earlier one is asked with the course's in its place: no case may be too large for that."""
    for cap in ("NUMBER_CAP", "ENTRIES_CAP", "PRODUCT_CAP", "TENSOR_ENTRIES_CAP"):
        monkeypatch.setattr(sandbox_messages, cap, 0.6 * getattr(sandbox_messages, cap))
    answers = right_answers_many_seeds.published(unit)
    refused: set[tuple[str, str, str]] = set()
    for name, answer in answers.items():
        for seed in range(FIRST, FIRST + 3):
            posed = right_answers_many_seeds.posed_once(name, seed)
            used = {other: find_exercise(other).reference for other in answers if other != name}
            request = Request(name, posed.cases, used, posed.exercise.library)

            def asked(other, request=request, name=name):
                def through_the_host(*args, **kwargs):
                    encoder = Encoder(request.library)
                    header = {"id": other, "args": encoder.encode(args), "kwargs": encoder.encode(kwargs)}
                    reply, _ = request.reply(header, encoder.payload())
                    if "too large" in reply.get("message", ""):
                        refused.add((name, other, reply["message"]))
                    return answers[other](*args, **kwargs)

                return through_the_host

            with monkeypatch.context() as patch:
                for other in used:
                    patch.setitem(answer.__globals__, other, asked(other))
                ask_here(answer, posed)
    assert not refused


# The tolerance of a case -------------------------------------------------------------------------------------------


def centred(x):
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


def centred_in_a_loop(x):
    rows = []
    for row in x:
        total = row.dtype.type(0)
        for number in row:
            total += number
        apart = row - total / row.dtype.type(len(row))
        rows.append(apart / np.sqrt((apart * apart).mean()))
    return np.array(rows)


def from_squares(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(np.abs((x * x).mean(-1, keepdims=True) - mean * mean))


def far_from_zero(rng):
    """Rows around 1,000 whose numbers differ by a few of their last digits and by many."""
    spreads = np.array([[0.02], [0.05], [0.6]])
    ordinary = Case("values", "ordinary", (rng.standard_normal((4, 5)).astype(np.float32),), sizes={"n": 4, "d": 5})
    far = (1000 + spreads * rng.standard_normal((3, 6))).astype(np.float32)
    return [ordinary, Case("edge cases", "far from zero", (far,), sizes={"n": 3, "d": 6})]


CENTRED = Exercise(
    "centred",
    "00_test",
    Leaf("float array"),
    centred,
    far_from_zero,
    {"values": 0.6, "edge cases": 0.4},
    (Mistake("from-squares", "Two large numbers cancel.", from_squares),),
)


def verdict(answer, exercise, seed):
    posed = pose(exercise, seed)
    return judge(posed, ask_here(answer, posed)), posed


@pytest.mark.parametrize("answer", [centred, centred_in_a_loop])
def test_numbers_that_leave_few_digits_give_a_tolerance_that_asks_for_few(answer):
    for seed in range(40):
        found, _ = verdict(answer, CENTRED, seed)
        assert found.verdict == "right", f"seed {seed}: {found.message}"


def test_where_few_digits_are_left_a_known_mistake_is_still_one():
    for seed in range(40):
        found, posed = verdict(from_squares, CENTRED, seed)
        assert found.mistake == "from-squares", f"seed {seed}: {found.message}"
        ordinary, *_, far = (tolerance(case) for case in posed.cases)
        assert ordinary < far <= LOOSEST


def test_a_result_that_jumps_is_not_given_a_wide_tolerance():
    def share(x):
        return float((x > 1.0).mean())

    exercise = Exercise(
        "share",
        "00_test",
        Leaf("float"),
        share,
        lambda rng: [
            Case("values", "ties", (np.array([1.0, 0.5, 2.0, 1.0]),)),
            Case("values", "none", (rng.random(5),)),
        ],
        {"values": 1.0},
        (),
    )
    found, posed = verdict(lambda x: float((x >= 1.0).mean()), exercise, 3)
    assert found.verdict == "wrong"
    assert max(map(tolerance, posed.cases)) < 1e-6


def test_the_order_of_operations_is_free_in_float32():
    """The heads of an attention summed one by one, in one product, and the other way round."""
    import torch  # takes seconds, and no other test of this file needs it

    def reference(x, W):
        return torch.einsum("hnd,hde->ne", x, W)

    def draw(rng):
        def case(h, n, d, e):
            x, W = (rng.standard_normal(shape).astype(np.float32) for shape in ((h, n, d), (h, d, e)))
            return Case("values", f"{h} heads", (100 * x, W), sizes={"h": h, "n": n})

        return [case(8, 3, 16, 4), case(5, 4, 7, 6)]

    exercise = Exercise(
        "summed",
        "00_test",
        Leaf("float array"),
        reference,
        draw,
        {"values": 0.7, "gradients": 0.3},
        (),
        library="torch",
    )
    for answer in (
        lambda x, W: sum(one @ other for one, other in zip(x, W, strict=True)),
        lambda x, W: sum(one @ other for one, other in zip(x.flip(0), W.flip(0), strict=True)),
        lambda x, W: x.transpose(0, 1).flatten(1) @ W.flatten(0, 1),
    ):
        for seed in range(10):
            found, _ = verdict(answer, exercise, seed)
            assert found.verdict == "right", found.message


# The command -------------------------------------------------------------------------------------------------------


def test_the_command_counts_draws_and_rejections(capsys, monkeypatch):
    assert (
        right_answers_many_seeds.main(["causal_mask", "04", "--draws", "1", "--first", str(FIRST), "--published"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(exercises("04_multi_head"))
    assert lines[0].startswith("causal_mask: 1 right answer, 1 draws, none rejected")
    monkeypatch.setattr(
        right_answers_many_seeds, "right_answers", lambda *_: {"wrong": lambda n: np.ones((n, n), dtype=bool)}
    )
    assert right_answers_many_seeds.main(["causal_mask", "--draws", "3", "--first", str(FIRST)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "3 rejected" in lines[0] and lines[1].startswith(f"  wrong, seed {FIRST}: ")


@pytest.mark.parametrize("words", [["no_such_thing"], ["--draws", "0"]])
def test_the_command_says_what_it_cannot_use(words, capsys):
    with pytest.raises(SystemExit) as ended:
        right_answers_many_seeds.main(words)
    assert ended.value.code == 2
    assert "there is no unit" in capsys.readouterr().err or words[0] == "--draws"
