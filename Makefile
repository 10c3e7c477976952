# `make demo` and `make test` need only Python 3.11 to 3.13: the first run makes .venv from the lock file.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.complete

.PHONY: demo test lint bench clean

demo: $(STAMP)
	$(VENV)/bin/prio demo

test: $(STAMP)
	$(VENV)/bin/python -m pytest

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(STAMP)
	$(VENV)/bin/prio bench all

# The stamp is written last, so an interrupted set-up is done again, not half used.
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(STAMP)

clean:
	rm -rf $(VENV)
