# In: a machine with Python 3.11 to 3.13, make and git. Out: a working copy in .venv, checked or shown.
# One rule: a target makes what it needs; nothing is installed twice unless pyproject.toml changed.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
WORKERS ?= 2

.PHONY: demo test prove bench docs fix clean

demo: $(STAMP)
	@$(BIN)/python -m a3s_code.cli.demo

test: $(STAMP)
	@echo "ruff: style" && $(BIN)/ruff check
	@echo "ruff: format" && $(BIN)/ruff format --check
	@echo "mypy: types" && $(BIN)/mypy
	@echo "import-linter: who imports whom" && $(BIN)/lint-imports
	@echo "pytest: behaviour" && $(BIN)/pytest -n $(WORKERS) -m "not prove"

prove: $(STAMP)
	@echo "pytest: proofs (minutes)" && $(BIN)/pytest -m prove

bench: $(STAMP)
	@$(BIN)/python -m benchmarks

docs: $(STAMP)
	@echo "the parts of docs/ that are made from code" && $(BIN)/python tests/docs/doctables.py
	@echo "pytest: every documented example" && $(BIN)/pytest tests/docs

fix: $(STAMP)
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

clean:
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	@echo "removed .venv and caches"

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "'$(PYTHON)' was not found: install Python 3.11 or newer, or run make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { echo "a3s_code needs Python 3.11 to 3.13, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1): run make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "'$(PYTHON)' can't make virtual environments: install its venv module (Debian, Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "making .venv" && $(PYTHON) -m venv .venv
	@echo "installing what pyproject.toml names" && $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev,cli,encryption,postgres]'
	@touch $(STAMP)
