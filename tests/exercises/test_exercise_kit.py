"""The kit: sizes and arguments as annotations and cases say, known mistakes as rows say, slips told in plain words."""

from functools import partial

import numpy as np
import pytest

from autograder.exercises.kit import (
    Cases,
    Drawn,
    HostFunction,
    Leaf,
    Rng,
    by_columns,
    every_second_row,
    exercise,
    ids,
    mask,
    normal,
    seed,
    size,
    slips,
    strided,
    weights,
)


def layer(
    X: normal("B n d_model"),
    W_Q: weights("d_model h*d_head"),
    n_heads: size("h"),
    allowed: mask("n n") = None,
    scale: float = 1.0,
) -> Leaf("float array"):
    return scale * (X @ W_Q)


def lookup(tokens: ids("n", below="vocab"), period: int, generator: seed()) -> Leaf("int array"):
    return tokens


def ask(reference=layer, number=0, library="numpy", sizes=range(3, 9), **ranges):
    return Cases(reference, np.random.default_rng(number), sizes, ranges, library)


def test_no_two_axes_can_be_taken_for_each_other():
    for number in range(200):
        case = ask(number=number, d_model=range(9, 25))("values")
        X, W_Q, n_heads = case.args
        assert len({*X.shape, n_heads, W_Q.shape[1]}) == 5
        assert case.sizes["h"] * case.sizes["d_head"] == W_Q.shape[1]
        assert case.sizes["h"] == n_heads and W_Q.shape[0] == X.shape[2] == case.sizes["d_model"]


def test_a_case_names_sizes_by_number_by_others_and_by_what_to_choose_from():
    for number in range(50):
        case = ask(number=number)("values", "{B} and {d_model}", n=1, d_head="n", d_model="2*h", B=(17, 19))
        assert case.sizes["n"] == case.sizes["d_head"] == 1
        assert case.sizes["d_model"] == 2 * case.sizes["h"]
        assert case.sizes["B"] in (17, 19)
        assert case.label == f"{case.sizes['B']} and {case.sizes['d_model']}"


def test_sizes_are_listed_where_a_case_has_no_label():
    assert ask(lookup)("values", n=4, vocab=9, period=3).label == "n = 4, vocab = 9, period = 3"


def test_sizes_that_cannot_all_differ_are_told():
    with pytest.raises(ValueError, match="found no sizes that all differ for n, d_model, d_head"):
        ask(sizes=range(3, 5))("values", B=3, h=4)


def test_arguments_of_ones_own_tell_their_sizes():
    X = np.ones((2, 6, 7))
    case = ask()("values", "ones", X=X, n_heads=4)
    assert case.args[0] is X and case.args[2] == 4
    assert [case.sizes[name] for name in ("B", "n", "d_model", "h")] == [2, 6, 7, 4]
    assert case.args[1].shape == (7, 4 * case.sizes["d_head"])


def test_a_drawn_argument_stands_in_for_another_in_one_case():
    make = ask()
    case = make("values", "two axes", X=normal("n d_model"), allowed=mask("h 1 n n"))
    assert case.args[0].ndim == 2 and "B" not in case.sizes
    assert case.args[3].shape == (case.sizes["h"], 1, case.sizes["n"], case.sizes["n"])
    assert make("values").args[0].ndim == 3


def test_what_is_drawn_can_be_changed_and_handed_back():
    make = ask(number=3)
    drawn = make.draw(h=5)
    case = make("values", "large", **{**drawn, "X": 100 * drawn["X"]})
    np.testing.assert_array_equal(case.args[0], 100 * drawn["X"])
    assert case.args[1] is drawn["W_Q"] and case.args[2] == 5
    assert case.sizes == {name: drawn[name] for name in ("B", "n", "d_model", "h", "d_head")}


def test_optional_arguments_are_left_out_or_go_where_the_case_says():
    make = ask()
    assert len(make("values").args) == 3
    allowed = np.ones((1, 1), bool)
    assert make("values", allowed=allowed, scale=2.0).args[3:] == (allowed, 2.0)
    assert make("values", scale=2.0).kwargs == {"scale": 2.0}
    by_name = make("values", allowed=allowed, scale=2.0, by_name="allowed scale")
    assert (len(by_name.args), by_name.kwargs) == (3, {"allowed": allowed, "scale": 2.0})


def test_dtype_and_layout_reach_arrays_wherever_they_stand():
    def block(
        x: normal("n d"), params: Drawn("", lambda rng, shape, sizes: {"W": np.eye(sizes["d"])}, also="d")
    ) -> Leaf("float array"):
        return x @ params["W"]

    args = ask(block)("values", dtype=np.float32, layout=strided).args
    for array in (args[0], args[1]["W"]):
        assert array.dtype == np.float32 and not array.flags.contiguous
    args = ask(block)("values", layout={"x": every_second_row}).args
    assert not args[0].flags.contiguous and args[1]["W"].flags.contiguous
    assert ask(block)("values", layout=by_columns).args[0].flags.f_contiguous


def test_numbers_fit_both_precisions_in_torch_exercises_alone():
    for library, alike in (("torch", True), ("numpy", False)):
        X = ask(library=library)("values").args[0]
        assert X.dtype == np.float64
        assert np.array_equal(X, X.astype(np.float32)) == alike


def test_ids_seeds_and_further_sizes():
    for number in range(50):
        case = ask(lookup, number)("values", "long", n=400, watch="2*n", also={"seed": 7, "all": "n*period"})
        tokens, period, generator = case.args
        assert isinstance(generator, Rng) and period == case.sizes["period"]
        assert {*tokens} == {*range(case.sizes["vocab"])}
        assert (case.watch, case.sizes["seed"], case.sizes["all"]) == (800, 7, 400 * period)


def test_weights_keep_the_spread_of_what_they_act_on():
    rng, sizes = np.random.default_rng(0), {"d": 400, "k": 300}
    X, W = normal("d d").draw(rng, sizes), weights("d k", gain=2.0).draw(rng, sizes)
    assert abs((X @ W).std() - 2.0) < 0.05


def test_names_that_mean_nothing_are_told():
    with pytest.raises(TypeError, match="layer has no size or argument 'd_q'; it has B, W_Q, X, allowed, d_head"):
        ask()("values", d_q=3)


def test_an_argument_that_nobody_gives_is_told():
    def leaks(attend, Q: normal("n d_k")) -> Leaf("bool"):
        return True

    with pytest.raises(TypeError, match="leaks: no annotation says how to draw attend"):
        ask(leaks)("values")
    function = HostFunction(abs)
    assert ask(leaks)("values", **ask(leaks).draw(), attend=function).args[0] is function


def test_annotations_that_are_text_are_told():
    def late(X: "normal('n')"):
        return X

    with pytest.raises(TypeError, match="leave out `from __future__ import annotations`"):
        ask(late)


ROWS = (
    ("halved", {"scale": 0.5}, "Everything is halved on the way to the result."),
    ("ones", lambda X, W_Q, n_heads: np.ones(3), "Ones stand where a product is asked for."),
)


def declared(reference=layer, mistakes=ROWS, **settings):
    usual = {"credit": {"values": 0.8, "edge cases": 0.2}, "slipped": layer}
    return exercise(reference, lambda case: [case("values")], mistakes, **{**usual, **settings})


def test_a_file_without_cases_is_told_so(monkeypatch):
    monkeypatch.setattr(layer, "__module__", "autograder.exercises.u97_layers.layer")
    with pytest.raises(TypeError, match="layer: its file has no cases"):
        exercise(layer, credit={"values": 1.0})
    monkeypatch.setitem(globals(), "cases", lambda case: [case("values")])
    with pytest.raises(TypeError, match="layer: its file has no MISTAKES"):
        exercise(layer, credit={"values": 1.0})
    monkeypatch.setitem(globals(), "MISTAKES", ROWS)
    found = exercise(layer, credit={"values": 1.0}, slipped=layer)
    assert [mistake.slug for mistake in found.mistakes] == ["halved", "ones"] and found.plain is None


def test_an_exercise_is_named_by_its_reference_and_returns_what_stands_behind_the_arrow(monkeypatch):
    monkeypatch.setattr(layer, "__module__", "autograder.exercises.u97_layers.layer")
    found = declared()
    assert (found.name, found.unit, found.core) == ("layer", "97_layers", "values")
    assert found.returns == Leaf("float array")


def test_a_row_with_a_dict_slips_and_a_row_with_a_function_is_it(monkeypatch):
    monkeypatch.setattr(layer, "__module__", "autograder.exercises.u97_layers.layer")
    halved, ones = declared().mistakes
    X, W_Q = np.ones((1, 2, 3)), np.ones((3, 4))
    np.testing.assert_array_equal(halved.wrong(X, W_Q, 2), 0.5 * (X @ W_Q))
    assert (halved.slug, halved.advice, ones.wrong) == ("halved", ROWS[0][2], ROWS[1][1])
    ((_, doubled, _),) = slips(layer, (("doubled", {"scale": 2.0}, "…"),))
    np.testing.assert_array_equal(doubled(X, W_Q, 2), 2 * (X @ W_Q))


def unannotated(X):
    return X


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"credit": {"values": 0.8, "edge cases": 0.1}}, "shares of credit must sum to 1"),
        ({"slipped": None}, "'halved': a row is .* needs `slipped`"),
        ({"mistakes": (ROWS[1], ROWS[1])}, "two known mistakes share a slug"),
        ({"mistakes": (("ones", "Advice before the function.", abs),)}, "'ones': a row is"),
        ({"reference": unannotated}, "behind the arrow stands a Leaf"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(settings, message, monkeypatch):
    for reference in (layer, unannotated):
        monkeypatch.setattr(reference, "__module__", "autograder.exercises.u97_layers.layer")
    with pytest.raises((TypeError, ValueError), match=message):
        partial(declared, **settings)()
