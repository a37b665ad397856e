# `make run` and `make test` work on a fresh clone: each first makes what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: run test test-slow extras check format notebooks docs wheel clean

run: $(VENV)/.installed
	$(BIN)/kvsim run scenarios/chat.yaml

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto -m "not slow"

# The published results and measured runs as a whole, every point of the chat scenario, and the like.
test-slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto -m slow

# What tests of optional kinds need besides; without it they skip and say so. This release of
# PyTorch, since any will do and others may have to be built for a GPU first.
extras: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[silicon,tokenizers,cluster,notebooks,optimize,parquet,docs]' torch==2.13.0

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Runs each anew and keeps what it shows.
notebooks: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[notebooks]'
	$(BIN)/python notebooks/execute.py notebooks/*.ipynb

# Writes the pages that are made of the code, and builds the site: open site/index.html.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python -m docs.generate
	$(BIN)/mkdocs build --strict

wheel: $(VENV)/.installed-dev
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist site *.egg-info

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.installed
