"""Says which calls in an answer would do the whole exercise for it."""

import dis

#: What of PyTorch is an exercise of the course, or several at once.
WHOLE_EXERCISES = {
    *("scaled_dot_product_attention", "multi_head_attention_forward"),
    *("MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerDecoder"),
    *("TransformerEncoderLayer", "TransformerDecoderLayer", "RMSNorm"),
}


def check_names_of(answer, *more, not_allowed=(), elsewhere=None):
    """Assert that an answer calls nothing that does the exercise for it.

    elsewhere: functions that have a test of their own; the other functions of the
    notebook that the answer calls are looked into as well. None: look into none.
    """
    notebook = getattr(answer, "__globals__", {})
    if notebook.get("__name__") != "__main__":
        return  # the answer was not written in this notebook
    used, codes = set(), [answer.__code__]
    for code in codes:  # it grows: functions inside of functions, and those called
        used.update(code.co_names)
        found = [each for each in code.co_consts if hasattr(each, "co_names")]
        if elsewhere is not None:
            steps = dis.get_instructions(code)
            loaded = {step.argval for step in steps if step.opname == "LOAD_GLOBAL"}
            for called in map(notebook.get, loaded.intersection(notebook) - {*elsewhere}):
                used.add(getattr(called, "__name__", type(called).__name__))
                if getattr(called, "__globals__", None) is notebook:
                    found.append(called.__code__)
        codes += [each for each in found if each not in codes]
    refused = ", ".join(sorted(used & {*WHOLE_EXERCISES, *not_allowed, *more}))
    told = f"Not allowed in this answer: {refused}."
    assert not refused, f"{told} That does the exercise for you: write it yourself."
