# Everything needs only Python 3.11 or later, with any pip since 22.3: the first run makes .venv from a lock file.
# While you work: `make check`, under a minute. Before you hand in: `make test`, which is everything.
PYTHON ?= python3
VENV := .venv
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.complete

# A lock names everything, so nothing is resolved: what the index offers besides cannot matter. Python compiles what it
# imports, at the first import; pip would compile every file of every package, which takes three times as long as the rest.
INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
LOCKED := --require-hashes --only-binary :all:

# Python keeps what pytest makes of each test file, so that a second run need not make it again.
unexport PYTHONDONTWRITEBYTECODE

WORKERS := --numprocesses auto --maxprocesses 8
# Tests of services wait as long as they compute, and those with containers take turns: two more workers than there are
# cores keep these busy.
MORE_WORKERS := --numprocesses $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2) --maxprocesses 8
NO_HANGING := --max-worker-restart=0 -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

.PHONY: demo check test lint bench fuzz soak docs lock clean picture

demo: $(RUNTIME)
	$(VENV)/bin/prio demo

check: lint
	$(VENV)/bin/python -m pytest --quick -p no:schemathesis --durations=5 --durations-min=1 $(WORKERS)

# The workers share the cores, and numpy's threads would wait for one another there, which takes a core each.
check test: export OPENBLAS_NUM_THREADS = 1

# A file stays with one worker, so that its services are started and its kernels compiled once. Files come in their order,
# the long ones of tests/end_to_end early, so that no worker has one left when the others are done. A test that hangs for a
# quarter of an hour ends its worker, and is named.
test: $(STAMP)
	$(VENV)/bin/python -m pytest $(MORE_WORKERS) --dist loadfile --no-loadscope-reorder --durations=25 $(NO_HANGING)

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

# All faults at once, for SECONDS (an hour, if not given); ends with one line.
soak: SECONDS := $(if $(filter command line environment,$(origin SECONDS)),$(SECONDS),3600)
soak: $(STAMP)
	$(VENV)/bin/python -m tests.soak --seconds $(SECONDS)

# The site, in build/site; nothing is fetched, and a warning is an error. What the code says of itself is written first.
docs: $(STAMP)
	$(VENV)/bin/python -m tests.support.reference docs
	$(VENV)/bin/python -m tests.support.data_model > docs/data-model.md
	$(VENV)/bin/python -m sphinx --fail-on-warning --quiet -b html -c docs/site . build/site
	@echo "open build/site/docs/site/index.html"

# The README's pictures, of a page made and a demo run now; they need chromium.
picture: $(STAMP)
	rm -rf build/demo
	$(VENV)/bin/prio demo --keep build/demo
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,740 \
	  --screenshot=docs/pictures/result.png file://$(CURDIR)/build/demo/demo.html
	$(VENV)/bin/python -m tests.support.form_picture build/form.html
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=500,870 \
	  --screenshot=docs/pictures/form.png file://$(CURDIR)/build/form.html

# A stamp is written last, so an interrupted set-up is done again, not half used.
$(STAMP): requirements.lock $(RUNTIME)
	$(INSTALL) $(LOCKED) --requirement requirements.lock
	$(VENV)/bin/python -m pip --quiet check
	touch $@

# What the demo needs, and the package itself. Everything else is for the work on it.
$(RUNTIME): requirements-runtime.lock pyproject.toml | $(VENV)/bin/pip
	$(INSTALL) $(LOCKED) --requirement requirements-runtime.lock
	$(INSTALL) --no-build-isolation --editable .
	$(VENV)/bin/python -m pip --quiet check
	touch $@

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

# The four locks made again by uv, at the same versions but for what was deleted from requirements.lock; all of them newer
# with `make lock PINNED=`. Each file is made anew: uv would keep the hashes of the one that it replaces, of fewer wheels.
PINNED := --constraint requirements.lock
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header pyproject.toml

DEMO := --extra service --extra collector
AGGREGATOR := --extra service --extra objects --extra postgresql --extra traces

lock:
	mkdir -p build && rm -f build/requirements*.lock
	$(COMPILE) $(PINNED) --all-extras --group dev --output-file build/requirements.lock
	mv build/requirements.lock requirements.lock
	$(COMPILE) --constraint requirements.lock --all-extras --group build --output-file build/requirements-image.lock
	mv build/requirements-image.lock requirements-image.lock
	$(COMPILE) --constraint requirements.lock $(AGGREGATOR) --group build --output-file build/requirements-aggregator.lock
	mv build/requirements-aggregator.lock requirements-aggregator.lock
	$(COMPILE) --constraint requirements.lock $(DEMO) --group build --output-file build/requirements-runtime.lock
	mv build/requirements-runtime.lock requirements-runtime.lock

clean:
	rm -rf $(VENV)
