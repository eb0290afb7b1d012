# The two commands: `make lab` opens the first notebook, `make test` runs everything.
# All paths are relative, so the checkout may lie in a folder with blanks or accents in its name.

PYTHON ?=
NOTEBOOK ?= notebooks/00_ranks_and_collectives.ipynb
PY := .venv/bin/python
# Folders that hold tests or notebooks; notebooks are compared cell by cell.
TESTED := $(wildcard tests notebooks solutions)

# Two files at a time. A file stays whole: the cells of a notebook need one kernel, in their order.
# The longest come first: tests/longest.py.
SIDE_BY_SIDE ?= -n 2 --dist loadfile --no-loadscope-reorder

export PYTHON

.DEFAULT_GOAL := help
# A release for students has no tests, benchmarks and answers, and says so before anything is done.
has-%:
	@[ -d $* ] || { echo "This copy of the course has no $*/: it is a release for students." >&2; exit 2; }

.PHONY: help setup lab test planner tour notebooks bench faults lint clean

help: ## list these targets
	@echo "make lab     sets everything up and opens the first notebook"
	@echo "make test    sets everything up and runs all tests and notebooks"
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "  %-12s%s\n", $$1, $$2 }'

setup: ## create .venv and install (nothing to do: nothing done; PYTHON=python3.12 picks one)
	@bash scripts/setup.sh

lab: ## open JupyterLab (NOTEBOOK=03 picks another notebook: its number, name or file)
	@bash scripts/lab.sh --look "$(NOTEBOOK)"
	@bash scripts/setup.sh
	@bash scripts/lab.sh "$(NOTEBOOK)"

test: has-tests setup ## run every test, and every notebook against its stored outputs
	@$(PY) -m pytest --nbval $(SIDE_BY_SIDE) $(TESTED)

planner: setup ## open the mesh planner as a page of its own, without a notebook (stop it with Ctrl-C)
	@bash scripts/planner.sh

tour: setup ## run every lab on real ranks in this terminal, measured beside formula
	@$(PY) -m labs tour

notebooks: has-solutions setup ## fill, execute and normalise the notebooks (ARGS="01_tp_linear_pair --refresh measured")
	@$(PY) -m labs.notebooks $(ARGS)

bench: has-benchmarks setup ## measure against torch's own implementations (ARGS=hub: 30 kernels at once; ARGS=endurance)
	@$(PY) -m benchmarks $(ARGS)

faults: has-tests setup ## break runs in every way, 20 times each, under an hour (ARGS="send/send --times 3"; ARGS=good)
	@$(PY) -m tests.faults $(ARGS)

lint: setup ## ruff: style and formatting
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .

clean: ## remove .venv and everything that tools left behind
	@rm -rf .venv build dist ./*.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
