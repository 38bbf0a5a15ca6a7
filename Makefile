# Every target sets up first if need be; `make help` lists them. Needs Python 3.11 or newer, with pip.
# Another Python: make lab PYTHON=python3.12.  More arguments: make lab ARGS="--no-browser --port 8890".
PYTHON ?= python3
ARGS ?=
SETUP := $(PYTHON) tools/bootstrap.py
BIN := .venv/bin/

.PHONY: help lab demo test lint format notebooks setup clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## */  make \1 | /' | column -t -s '|' 2>/dev/null || true

lab:  ## open JupyterLab on notebooks/ (students)
	@$(SETUP) --run tools/lab.py $(ARGS)

demo:  ## grade a small sample class in the sandbox and show what was found
	@$(SETUP) --extras grading --sandbox --run -m autograder.demo $(ARGS)

setup:  ## everything that grading a class needs, and nothing else
	@$(SETUP) --extras grading --sandbox

test: lint  ## everything that CI runs
	@$(BIN)python -m autograder release --check
	@$(BIN)python -m pytest -q -n auto --dist loadfile $(ARGS)

lint:  ## style of code and notebooks
	@$(SETUP) --extras grading,test --sandbox
	@$(BIN)ruff check --quiet .
	@$(BIN)ruff format --quiet --check . || { echo "make lint: run 'make format'" >&2; exit 1; }

format:  ## put code and notebooks into the common form
	@$(SETUP) --extras grading,test
	@$(BIN)ruff check --quiet --fix . ; $(BIN)ruff format --quiet .

notebooks:  ## execute solutions/ in place and make notebooks/ from them (authors)
	@$(SETUP) --extras grading,test --run tools/execute.py $(ARGS)
	@$(BIN)python -m autograder release

clean:  ## remove what the set-up and the tools made; never a class's work in grading/
	rm -rf .venv .setup.lock demo .pytest_cache .ruff_cache *.egg-info
