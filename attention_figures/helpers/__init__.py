"""The code that several notebooks need, each function once.

A notebook of `solutions/` imports it. Its release holds the code itself, because a student may have a notebook and
nothing else: `make notebooks` replaces `from attention_figures.helpers.FILE import …` by what is in `FILE.py`. So a
file imports nothing from its neighbours, its docstring is one line, and a notebook that imports from it gives none of
its names another meaning.
"""
