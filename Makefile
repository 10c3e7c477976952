# Everything needs only Python 3.11 to 3.13: the first run makes .venv from the lock file.
# While you work: `make check`, under a minute. Before you hand in: `make test`, which is everything.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.complete

# A lock names everything, so nothing is resolved: what the index offers besides cannot matter.
LOCKED := --no-deps --require-hashes --only-binary :all:

# Python keeps what pytest makes of each test file, so that a second run need not make it again.
unexport PYTHONDONTWRITEBYTECODE

WORKERS := --numprocesses auto --maxprocesses 8
NO_HANGING := --max-worker-restart=0 -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

.PHONY: demo check test lint bench fuzz docs clean

demo: $(STAMP)
	$(VENV)/bin/prio demo

check: lint
	$(VENV)/bin/python -m pytest --quick -p no:schemathesis $(WORKERS)

# A file stays with one worker, so that its services are started and its kernels compiled once. A test that hangs for a
# quarter of an hour ends its worker, and is named.
test: $(STAMP)
	$(VENV)/bin/python -m pytest $(WORKERS) --dist loadfile $(NO_HANGING)

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(STAMP)
	$(VENV)/bin/prio bench all

# Every decoder by turns; SECONDS for each. What it finds is kept in tests/fuzz/corpus.
SECONDS := 60
fuzz: $(STAMP)
	$(VENV)/bin/python -m tests.fuzz --seconds $(SECONDS)

# The site, in build/site; nothing is fetched, and a warning is an error. What the code says of itself is written first.
docs: $(STAMP)
	$(VENV)/bin/python -m aggregator.cli.reference docs
	$(VENV)/bin/python -m aggregator.storage.data_model > docs/data-model.md
	$(VENV)/bin/python -m sphinx --fail-on-warning --quiet -b html -c docs/site . build/site
	@echo "open build/site/docs/site/index.html"

# The stamp is written last, so an interrupted set-up is done again, not half used.
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet $(LOCKED) --requirement requirements.lock
	$(VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(VENV)/bin/python -m pip --quiet check
	touch $(STAMP)

clean:
	rm -rf $(VENV)
