# Each target sets up first if necessary; `make help` lists them. They need Python 3.11 or newer, with pip.
# To use another Python: make lab PYTHON=python3.12. To add arguments: make lab ARGS="--no-browser --port 8890".
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell command -v $(name))))
ARGS ?=
SETUP := $(if $(PYTHON),$(PYTHON) tools/bootstrap.py,echo "make: no Python was found; install one, on Debian and \
	Ubuntu: sudo apt-get install python3 python3-venv" >&2; exit 2; :)
BIN := .venv/bin/

.PHONY: help lab update demo model test test-all test-browser bench lint format notebooks site pictures hooks setup clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1 | /' | column -t -s '|' 2>/dev/null || true

lab:  ## open JupyterLab on notebooks/ (students)
	@$(SETUP) --run tools/lab.py $(ARGS)

update:  ## fetch the newest version of the course and keep every answer in notebooks/
	@$(or $(PYTHON),python3) tools/update.py

demo:  ## grade a small sample class in the sandbox and show what was found
	@$(SETUP) --extras grading --sandbox --run -m autograder.commands.demo $(ARGS)

model:  ## fetch the language model that unit 11 runs (98 MB, once for all courses)
	@$(SETUP) --run -m autograder model $(ARGS)

setup:  ## install everything that grading a class needs, and nothing else
	@$(SETUP) --extras grading --sandbox

# Tests start hundreds of processes, and compiled files save a second in each.
test test-all test-browser: export PYTHONDONTWRITEBYTECODE :=

# `make test` runs without unit 11's language model, and `make test-all` with it.
test: export ATTENTION_COURSE_MODEL := none
test-all: export ATTENTION_COURSE_MODEL ?=

test: lint  ## run every kind of test, in eight minutes on two cores; CI runs this
	@$(BIN)python -m pytest -q -n auto --dist loadgroup -m "not nightly" $(ARGS)

test-all: lint  ## run all tests, the browser's too; a workflow runs this every night
	@$(BIN)python -m autograder release --check
	@$(BIN)python -m autograder model
	@$(BIN)python -m pytest -q -n auto --dist loadgroup $(ARGS)
	@$(MAKE) test-browser

test-browser:  ## test the site and the notebooks in a real browser (opt-in)
	@$(SETUP) --extras browser,grading,test
	@$(BIN)python tools/chromium.py
	@$(BIN)python -m pytest -q -n 2 --dist loadfile tests/browser $(ARGS)

bench:  ## compare speed and memory with stock nbgrader on the same submissions
	@$(SETUP) --extras grading,test --sandbox --run tools/bench.py $(ARGS)

lint:  ## check style and spelling of code and notebooks
	@$(SETUP) --extras grading,test --sandbox
	@$(BIN)ruff check --quiet .
	@$(BIN)ruff format --quiet --check . || { echo "make lint: run 'make format'" >&2; exit 1; }
	@$(BIN)lint-imports --no-cache > .venv/imports.txt 2>&1 || { cat .venv/imports.txt >&2; exit 1; }
	@$(BIN)codespell || { echo "make lint: mend these words, or list one that is right in pyproject.toml" >&2; exit 1; }

format:  ## format code and notebooks
	@$(SETUP) --extras grading,test
	@$(BIN)ruff check --quiet --fix . ; $(BIN)ruff format --quiet .

notebooks:  ## format and execute solutions/ in place, and make notebooks/ from them (authors)
	@$(SETUP) --extras grading,test --run tools/execute_notebooks.py $(ARGS)
	@$(BIN)python tools/insert_claims.py
	@$(BIN)python -m autograder release
	@$(BIN)python tools/update_readme.py

site:  ## build the course as a static site in site/
	@$(SETUP) --extras grading,test --run tools/build_site.py $(ARGS)

pictures:  ## draw the README's pictures again; run `make demo` first (authors)
	@$(SETUP) --extras browser,grading,test --sandbox
	@$(BIN)python tools/chromium.py
	@$(BIN)python tools/readme_pictures.py $(ARGS)

hooks:  ## install checks before each commit, and tools to edit and compare notebooks as text (authors)
	@$(SETUP) --extras authors,grading,test
	@$(BIN)pre-commit install

clean:  ## remove what the set-up and the tools made, but never a class's work in grading/
	rm -rf .venv .setup.lock demo site site.*.part tools/web/node_modules .pytest_cache .ruff_cache *.egg-info
