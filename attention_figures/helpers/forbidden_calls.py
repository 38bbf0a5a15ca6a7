"""Finds calls in an answer that would do the whole exercise for you."""

import dis

#: Names of PyTorch that do one or several exercises of the course.
WHOLE_EXERCISES = {
    *("scaled_dot_product_attention", "multi_head_attention_forward"),
    *("MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerDecoder"),
    *("TransformerEncoderLayer", "TransformerDecoderLayer", "RMSNorm"),
}


def check_names_of(answer, *more, not_allowed=(), elsewhere=None):
    """Assert that an answer calls nothing that does the exercise for it.

    more, not_allowed: further names that the answer must not use. elsewhere: functions
    that are not searched, because they have a test of their own; all other functions of
    the notebook that the answer calls are searched too. None: only the answer is
    searched.
    """
    notebook = getattr(answer, "__globals__", {})
    if notebook.get("__name__") != "__main__":
        return  # the answer was not written in this notebook
    used, codes = set(), [answer.__code__]
    for code in codes:  # the list grows by inner functions and those called
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
