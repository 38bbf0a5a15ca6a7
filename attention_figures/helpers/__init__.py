"""Holds the functions that several notebooks share.

A notebook in `solutions/` imports them. Its release contains their code, because a student may have a notebook and
nothing else: `make notebooks` replaces `from attention_figures.helpers.FILE import …` by the code of `FILE.py`. So a
file imports nothing from its neighbours, its docstring is one line, and a notebook that imports from it gives none of
its names another meaning.
"""
