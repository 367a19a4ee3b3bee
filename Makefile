# make demo   a real GPT-2, rewritten and checked
# make test   every test          make lint   ruff and mypy          make bench   timings
# All of them use .venv, installed from constraints.txt when that or pyproject.toml changes.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test lint bench soak install format clean
.DEFAULT_GOAL := test

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -d src/fxrules/dsl || { echo "src/fxrules/dsl is not a link to dsl/: this clone has no symbolic links." \
	  "Clone again with 'git clone -c core.symlinks=true'." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test,lint]'
	@touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo_gpt2.py

# One thread for each worker: two workers with two threads each only wait for one another.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m benchmarks

# Random programs against random rules, for five minutes or SECONDS=..., from another SEED=... each time.
soak: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/soak.py $(or $(SECONDS),300) $(or $(SEED),$(shell date +%s))

clean:
	rm -rf .venv build dist src/fxrules.egg-info
