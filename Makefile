# Run `make` for the list of targets. GNU make, a POSIX shell and Python 3.11 or later are needed.
# Every path is relative, so the checkout may lie anywhere.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

PY := .venv/bin/python
MODELS_PY := .venv-models/bin/python
READY := .venv/.ready
MODELS_READY := .venv-models/.ready
SITE := book/_build/html
RECORDS := book/_build/records
LOG := book/_build/build.log
PIP := -m pip install --quiet --disable-pip-version-check
export PIP_ROOT_USER_ACTION := ignore

# The first interpreter that is recent enough; `make PYTHON=/path/to/python3.12` decides it instead.
define find_python
found=; \
for candidate in $(if $(PYTHON),"$(PYTHON)",python3 python3.13 python3.12 python3.11); do \
  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
    found=$$candidate; break; \
  fi; \
done; \
if [ -z "$$found" ]; then \
  echo "Python 3.11 or later is needed; found: $$($(if $(PYTHON),"$(PYTHON)",python3) --version 2>&1)." >&2; \
  echo "Install it, or name it: make PYTHON=/path/to/python3.12 $@" >&2; \
  exit 1; \
fi
endef

# $(1): folder of the environment.
define make_venv
$(find_python); \
if ! [ -x $(1)/bin/python ] || ! $(1)/bin/python -m pip --version >/dev/null 2>&1; then \
  echo "Making $(1) with $$found"; \
  "$$found" -m venv --clear $(1) || { \
    echo "Python's venv module does not work (on Debian: apt install python3-venv)." >&2; exit 1; }; \
fi
endef

.PHONY: help env book test test-book test-models verify results bench lab lint site lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

env: $(READY)  ## make .venv: all that the chapters and the tests need, no torch

$(READY): requirements/book.lock pyproject.toml
	@$(call make_venv,.venv)
	$(PY) $(PIP) -r requirements/book.lock
	$(PY) $(PIP) --no-deps -e .
	@touch $@

book: $(READY)  ## execute every chapter, build the site, sum up the ledger
	@rm -rf $(SITE) book/_build/jupyter_execute  # pages and reports of an earlier build; not the cache
	@mkdir -p book/_build; rm -f $(LOG).ok; \
	{ PATH="$(CURDIR)/.venv/bin:$$PATH" NO_COLOR=1 $(PY) -c 'from jupyter_book.cli.main import main; main()' \
	  build . --config book/_config.yml --toc book/_toc.yml --path-output book \
	  --all -n -W --keep-going 2>&1 && touch $(LOG).ok; } | tee $(LOG); \
	if ! [ -e $(LOG).ok ]; then \
	  echo "The book was not built (what lies in $(SITE) is unfinished). The cause:" >&2; \
	  grep -E 'WARNING|ERROR|Error' $(LOG) >&2; \
	  find $(SITE)/reports -name '*.err.log' 2>/dev/null | sed 's/^/Report of a failed cell: /' >&2; \
	  exit 1; \
	fi
	@$(PY) -m causalrag.cli verify --records $(RECORDS)
	@echo "Open $(CURDIR)/$(SITE)/index.html"

test: $(READY)  ## run the test suite, offline
	$(PY) -m pytest -n auto --dist loadfile -m "not models and not browser"

test-book: $(READY)  ## test the built book in Chromium: by file:// and http, small, dark, by keyboard
	CAUSALRAG_REQUIRE_BROWSER=1 $(PY) -m pytest -m browser $$(grep -l 'pytest\.mark\.browser' tests/test_*.py)

test-models: $(MODELS_READY)  ## run the tests that need torch, in an environment of their own
	@# Only the files with such tests: the others may import what this environment lacks.
	$(MODELS_PY) -m pytest -m models $$(grep -l 'pytest\.mark\.models' tests/test_*.py)

$(MODELS_READY): requirements/models.lock pyproject.toml
	@$(call make_venv,.venv-models)
	$(MODELS_PY) $(PIP) -r requirements/models.lock
	$(MODELS_PY) $(PIP) --no-deps -e .
	@touch $@

verify: $(READY)  ## re-run the chapters that settle the claims and judge them: make verify CLAIM=P.obs1.opened
	@$(PY) book/run_chapters.py $(CLAIM)
	@$(PY) -m causalrag.cli verify --records $(RECORDS) $(CLAIM)

# ENCODERS, CORPUS, DATASETS, PARTS: lists; RERANKER: bge-reranker-v2-m3 or a folder; FORCE=1: anew, what is
# there too. A run that was stopped goes on where it was.
results: $(READY) $(MODELS_READY)  ## rank corpora, laws and benchmarks, time the step, store it all: make results ENCODERS=bge-m3
	$(MODELS_PY) book/make_results.py $(if $(PARTS),--parts $(PARTS)) $(if $(ENCODERS),--encoders $(ENCODERS)) \
	  $(if $(RERANKER),--reranker "$(RERANKER)") $(if $(CORPUS),--corpus $(CORPUS)) $(if $(DATASETS),--datasets $(DATASETS)) \
	  $(if $(FORCE),--force)
	@if [ -n "$$CAUSALRAG_DATA" ]; then $(PY) book/make_results.py --cost $(if $(FORCE),--force); \
	else echo "The step was not timed: that needs CAUSALRAG_DATA, the folder that holds beir/scifact.zip."; fi

bench: $(READY)  ## measure speeds on this machine (not a test)
	@for file in benchmarks/*.py; do $(PY) $$file; done

lab: $(READY)  ## open the chapters in JupyterLab (open a .md file as a notebook)
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) -m jupyterlab notebooks

lint: $(READY)  ## ruff (rules and format) and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

site: book  ## pack the built site into site.tar.gz
	tar -czf site.tar.gz -C $(SITE) .
	@echo "Packed $(CURDIR)/site.tar.gz"

# The locks hold for Python 3.11 to 3.13 on Linux, macOS and Windows. Pins are kept where they still
# fit; UPGRADE=1 takes the newest. CUDA's packages are left out of models.lock: pip adds them where
# the torch it finds asks for them, and a CPU build of torch asks for none. What both locks hold has
# the same version in both.
lock:  ## renew requirements/*.lock from pyproject.toml; UPGRADE=1 for the newest versions
	@$(find_python); \
	tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && \
	"$$found" -m venv "$$tools" && "$$tools/bin/python" $(PIP) 'uv>=0.9' && \
	compile() { \
	  UV_CUSTOM_COMPILE_COMMAND="make lock" "$$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	    --annotation-style line --constraint requirements/constraints.txt $(if $(UPGRADE),--upgrade) "$$@" pyproject.toml; \
	} && \
	compile --extra book --extra beir --extra llm --extra dev -o requirements/book.lock && \
	compile --extra models --extra beir --extra keybert --extra e5 --extra dev --constraint requirements/book.lock -o requirements/models.lock && \
	grep -Ev '^(nvidia-|cuda-|triton)' requirements/models.lock > "$$tools/models.lock" && \
	cp "$$tools/models.lock" requirements/models.lock && \
	echo "Renewed requirements/book.lock and requirements/models.lock"

clean:  ## remove the built book, the execution cache and the tools' caches; keep the environments
	rm -rf book/_build site.tar.gz dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
