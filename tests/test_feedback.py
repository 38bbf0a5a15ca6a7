"""The feedback page: what a student sees first, that it does nothing by itself, and that no text makes it slow."""

from __future__ import annotations

import html
import re
import time

import pytest

from autograder.colour import coloured

#: Texts of about n letters on which lexers look ahead or back.
TEXTS = {
    "blank lines": lambda n: "x = 1\n" + " \n" * (n // 2) + "y = 2",
    "attributes": lambda n: "x" + ".a" * (n // 2),
    "words": lambda n: "np " * (n // 3),
    "one word": lambda n: "r" * n,
    "digits": lambda n: "0" * n,
    "quotes": lambda n: "'" * n,
    "open strings": lambda n: "'a\\\n" * (n // 4),
    "open long strings": lambda n: '"""' + '""x' * (n // 3),
    "backslashes": lambda n: "\\" * n,
    "comments": lambda n: "#" * n,
    "brackets": lambda n: "(" * n,
    "magics": lambda n: "%" * n + "\n!" * (n // 2),
    "letters that cannot be seen": lambda n: "\u202e\x1b" * (n // 2),
    "mark-up": lambda n: "<&" * (n // 2),
}


def seconds(work, *given) -> float:
    found = []
    for _ in range(5):
        started = time.process_time()
        work(*given)
        found.append(time.process_time() - started)
    return min(found)


@pytest.mark.parametrize("name", TEXTS)
def test_colouring_takes_time_in_proportion_to_the_text(name):
    short, long = TEXTS[name](10_000), TEXTS[name](80_000)
    assert seconds(coloured, long) < 24 * max(seconds(coloured, short), 1e-4), "8 times the text"


def plain(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page))


@pytest.mark.parametrize("name", TEXTS)
def test_colouring_leaves_the_text_as_it_is(name):
    text = TEXTS[name](300).replace("\u202e", "").replace("\x1b", "")
    assert plain(coloured(text)) == text


def test_each_kind_of_token_has_its_colour():
    code = 'def f(x):\n    """Long,\n    "two" lines."""\n    return len(x) + 1.5e3, rb\'a\\\'b\', None  # why'
    found = re.findall(r'<span class="(\w+)">(.*?)</span>', coloured(code), re.DOTALL)
    assert [(kind, html.unescape(text)) for kind, text in found] == [
        ("k", "def"),
        ("s", '"""Long,\n    "two" lines."""'),
        ("k", "return"),
        ("nb", "len"),
        ("m", "1.5e3"),
        ("s", "rb'a\\'b'"),
        ("m", "None"),
        ("c", "# why"),
    ]


def test_letters_that_cannot_be_seen_are_spelt_out():
    shown = coloured("a = '\u202e\u2066\u2028\x1c\x85\x00é数'\n\tb")
    assert plain(shown) == "a = '\\u202e\\u2066\\u2028\\x1c\\x85\\x00é数'\n\tb"
