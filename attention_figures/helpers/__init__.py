"""What several notebooks need, each thing once: a notebook of `solutions/` imports it, and its release holds the text.

A student may have a notebook and nothing else, so `make notebooks` replaces `from attention_figures.helpers.NAME
import …` by the code of `NAME.py`. Every file here is therefore complete by itself and imports nothing from its
neighbours, and no notebook may use its names for something else.
"""
