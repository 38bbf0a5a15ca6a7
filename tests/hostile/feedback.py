"""Words that are to do something where they are read: on a feedback page, a terminal, in a spreadsheet."""

from __future__ import annotations

from .attack import Attack, own_cell

#: One of each way for a page to act or to fetch.
MARKUP = (
    "</pre></code></textarea></script><script>alert('hostile-mark')</script><img src=x onerror=alert(1)>"
    "<iframe src='//evil.example'></iframe><svg onload=alert(1)><link rel=stylesheet href='//evil.example/a.css'>"
    "<a href='javascript:alert(1)'>x</a><meta http-equiv=refresh content='0;//evil.example'>"
    "<base href='//evil.example'><form action='//evil.example'><input autofocus onfocus=alert(1)></form>"
    "<object data='//evil.example'></object><style>@import '//evil.example'</style>{{ 7 * 7 }}{% raw %}"
)
TERMINAL = "\x1b[2J\x1b]0;hostile-mark\x07\x1b[31mright 5/5\x1b[0m\x9b2J\r\x08\nada: right\n\u202egnorw\u202c\x00"
FORMULA = "=cmd|' /C calc'!A0,1000\n+1000,@SUM(1)"


def raising(words: str) -> str:
    return f"def causal_mask(n):\n    raise ValueError({words!r})"


def speaking(document) -> None:
    """The same words wherever a notebook can hold some."""
    html = {"output_type": "display_data", "metadata": {}, "data": {
        "text/html": MARKUP, "application/javascript": "alert(1)", "image/svg+xml": MARKUP, "text/markdown": MARKUP,
        "application/vnd.jupyter.widget-view+json": {"model_id": "x"},
    }}  # fmt: skip
    for cell in document["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = MARKUP
            cell["attachments"] = {"x.svg": {"image/svg+xml": MARKUP}}
        else:
            cell["outputs"] = [html]
    document["cells"] += [
        own_cell(MARKUP, "m", "markdown"),
        own_cell(MARKUP, "r", "raw"),
        own_cell(f"%%html\n{MARKUP}", "h"),
        own_cell(f"# {MARKUP}\nx = {MARKUP!r}", "c"),
        own_cell(f"%%javascript\nalert(1)\n# {TERMINAL}", '"><script>alert(1)</script>'),
    ]
    document["metadata"]["title"] = document["metadata"]["authors"] = MARKUP


NEVER = ("\x1b", "\x9b", "\n", "\r", "\x00", "\x07", "\u202e")
ATTACKS = (
    Attack("markup everywhere", "puts scripts, frames and pictures into cells and outputs", edit=speaking, solved=False,
           cells={"causal_mask": raising(MARKUP)}, never=NEVER),
    Attack("markup in a message", "raises an exception with a script", cells={"causal_mask": raising(MARKUP)}),
    Attack("a terminal's commands", "raises an exception that clears the reader's screen and writes a mark there",
           cells={"causal_mask": raising(TERMINAL)}, never=NEVER, says="\\x1b"),
    Attack(
        "a terminal's commands as a name",
        "returns an object, and raises an exception, whose type's name is a command",
        cells={
            "causal_mask": f"T = type({TERMINAL[:-1]!r}, (), {{}})\ndef causal_mask(n): return T()",
            "padding_mask": f"E = type({TERMINAL[:-1]!r}, (Exception,), {{}})\ndef padding_mask(*a): raise E('x')",
            "next_token_pairs": f"def f(): pass\nf.__name__ = {TERMINAL!r}\ndef next_token_pairs(*a): return f",
        },
        never=NEVER,
    ),
    Attack("a formula", "raises an exception that a spreadsheet would run", cells={"causal_mask": raising(FORMULA)},
           never=("\n",)),
    Attack("a message of marks", "raises an exception that looks like a verdict",
           cells={"causal_mask": raising("Right: all 9 hidden tests pass.\ncausal_mask: right, 2 of 2 points")},
           never=("\n",)),
    Attack("mark-up of a terminal", "raises an exception in the table's own mark-up",
           cells={"causal_mask": raising("[bold][/red][link=file:///etc/passwd]x[/link] [blink")}),
    Attack(
        "an exception that fails",
        "raises an exception whose words and class cannot be read",
        cells={
            "causal_mask": """
            class Meta(type):
                def __getattribute__(cls, name): raise SystemExit
            class Odd(Exception, metaclass=Meta):
                def __str__(self): raise KeyboardInterrupt
                __repr__ = __str__
            def causal_mask(n): raise Odd(Odd)
            """
        },
    ),
)  # fmt: skip
