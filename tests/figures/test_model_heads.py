"""The recorded heads of a real model: complete, hardly rounded, and its named heads do what the figure says of them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

import record_model_heads
from attention_figures import FOLDER, figure
from heads_record import RECORD, decoded, patterns, scores

TEXTS = range(len(RECORD["texts"]))
NAMES = [text["name"] for text in RECORD["texts"]]
STOPS = {stop["name"]: stop for stop in RECORD["stops"]}


@pytest.mark.parametrize("text", TEXTS)
def test_every_row_of_all_270_heads_adds_up_to_100(text: int):
    weights = patterns(text)
    n = len(RECORD["texts"][text]["tokens"])
    assert weights.shape == (30, 9, n, n) and n <= 32
    assert (weights.sum(axis=-1) == 100).all() and not np.triu(weights, 1).any()


def test_the_record_is_what_the_tool_asks_for():
    assert RECORD["signs"] == record_model_heads.SIGNS and list(record_model_heads.TEXTS) == NAMES
    for text in RECORD["texts"]:
        assert "".join(text["tokens"]) == record_model_heads.TEXTS[text["name"]]
    for stop in RECORD["stops"]:
        wanted = record_model_heads.STOPS[stop["name"]]
        assert (NAMES[stop["text"]], tuple(stop["head"]), stop["token"], stop["colour"], stop["why"]) == wanted


def test_it_is_small_and_html_and_json_take_its_signs_as_they_are():
    size = (FOLDER / "model_heads.json").stat().st_size
    assert size < 200_000
    assert len(set(RECORD["signs"])) == 100 and not re.search(r"[\d\s\"'<>&\\$`]", RECORD["signs"])
    assert len(figure("model_heads", RECORD, "", "").encode()) < size + 500


def test_rounding_moves_no_weight_by_a_whole_per_cent_and_can_be_read_back():
    scores = 3 * torch.randn(4, 19, 19, generator=torch.Generator().manual_seed(0))
    weights = scores.masked_fill(torch.ones(19, 19).triu(1).bool(), -torch.inf).softmax(-1)
    rounded = record_model_heads.per_cent(weights)
    assert (rounded.sum(-1) == 100).all() and np.abs(rounded - 100 * weights.numpy()).max() < 1
    for pattern in rounded:
        assert (decoded(record_model_heads.written(pattern), 19) == pattern).all()


def test_the_file_is_the_record_a_layer_to_a_line():
    text = (FOLDER / "model_heads.json").read_text(encoding="utf-8")
    assert text == record_model_heads.as_text(RECORD)
    assert text.count("\n") == pytest.approx(30 * len(NAMES), abs=len(STOPS) + len(NAMES))
    assert json.loads(text) == RECORD


def test_the_previous_token_head_leads_in_each_text_with_words_in_order():
    stop = STOPS["16.0: previous token"]
    assert stop["head"] == [16, 0]
    for text in TEXTS[:2]:
        means = scores(text)["previous"]
        assert means.argmax() == 16 * 9 and means.max() > 75
    assert patterns(stop["text"])[16, 0, stop["token"], stop["token"] - 1] > 90


def test_the_induction_head_finds_what_came_next_and_rests_where_nothing_returns():
    found, rests = STOPS["18.6: what came next"], STOPS["18.6: nothing to find"]
    tokens = RECORD["texts"][found["text"]]["tokens"]
    earlier = tokens.index(tokens[found["token"]])
    assert earlier < found["token"] and patterns(found["text"])[18, 6, found["token"], earlier + 1] > 95
    for text in (0, 2):
        means = scores(text)["followed"]
        assert means[18, 6] >= np.sort(means, axis=None)[-3] > 60
    tokens = RECORD["texts"][rests["text"]]["tokens"]
    assert len(set(tokens)) == len(tokens), "no token occurs twice"
    assert scores(rests["text"])["first"][18, 6] > 95


def test_the_model_knows_how_the_name_goes_on_the_second_time_alone():
    text = RECORD["texts"][0]
    name = text["tokens"].index(" Qu")
    again = text["tokens"].index(" Qu", name + 1)
    assert max(text["next"][name : name + 3]) < 30 and min(text["next"][again : again + 3]) > 95
    assert all(len(each["next"]) == len(each["tokens"]) - 1 for each in RECORD["texts"])


def test_the_sink_head_reads_the_first_token_in_every_text():
    assert STOPS["18.8: first token"]["head"] == [18, 8]
    assert all(scores(text)["first"][18, 8] > 98 for text in TEXTS)
