# Everything starts here: `make` lists the targets.
# Needs make, git and python3 (3.11 or newer). All it makes is under build/ and .venv/.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

UV_VERSION := 0.13.8
UV := build/tools/bin/uv
TOOLS := build/tools/.uv-$(UV_VERSION)
VENV := .venv
STAMP := $(VENV)/.installed
CODE := api bench deploy search_spaces tests tuner workloads

# The interpreter is the machine's own: uv fetches none. The distribution's is preferred, as it is
# faster than those that version managers build (docs/decisions/distribution-python.md).
PYTHONS := /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11
export UV_PYTHON_DOWNLOADS := never
# Trust what the machine trusts (a company's own authority, say), where it says so.
export UV_SYSTEM_CERTS ?= $(if $(wildcard /etc/ssl/certs/ca-certificates.crt),true,false)
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME
# Modules are kept compiled: otherwise every command takes twice as long to begin.
unexport PYTHONDONTWRITEBYTECODE

# pip obeys the machine's choice of package index; uv is told the same one.
SAME_INDEX = index="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$(build/tools/bin/python -m pip config get global.index-url 2>/dev/null || true)}}"; \
	if [ -n "$$index" ]; then export UV_DEFAULT_INDEX="$$index"; fi

.PHONY: help tune setup unit test test-vm check bench format docs pictures dist lock clean
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

tune: setup ## tune the fileserver of a private cell on this machine
	@$(VENV)/bin/fstune db upgrade
	@$(VENV)/bin/fstune run deploy/quickstart.yaml
	@$(VENV)/bin/fstune report last --html build

setup: $(STAMP) ## make .venv with every dependency at its locked version
	@:

unit: setup ## run the quick tests of single modules, for the inner loop
	@$(VENV)/bin/python -m pytest -q -n 2 --dist worksteal -m 'not slow and not postgres' tests/unit $(PYTEST)

test: setup ## run the tests, six files at a time; PYTEST="-k word" narrows them
	@$(VENV)/bin/python -m pytest -n 6 --dist loadfile --no-loadscope-reorder $(PYTEST)

test-vm: setup ## run the tests on guests with the kernel client, two at a time: 13 to 20 minutes, the first time 16 to 28
	@$(VENV)/bin/fstune vm build --state-dir build/test-state
	@$(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m vm tests/vm $(PYTEST)

check: setup ## lint, formatting, types, import rules
	@$(VENV)/bin/ruff check $(CODE)
	@$(VENV)/bin/ruff format --check $(CODE)
	@$(VENV)/bin/mypy $(CODE)
	@$(VENV)/bin/lint-imports --no-cache

bench: setup ## install what the studies under bench/ need besides
	@$(UV) export -q --frozen --python build/tools/bin/python --group bench --no-emit-project --no-header --no-annotate -o build/requirements-bench.txt
	@$(SAME_INDEX); $(UV) pip install -q --python $(VENV)/bin/python --require-hashes -r build/requirements-bench.txt

format: setup ## rewrite the code in the agreed format
	@$(VENV)/bin/ruff check --fix-only --quiet $(CODE)
	@$(VENV)/bin/ruff format $(CODE)

docs: setup ## rewrite every generated file: references, manual page, OpenAPI document
	@$(VENV)/bin/python -m search_spaces.reference docs/search-spaces.md
	@$(VENV)/bin/python -m tuner.cli.reference docs/commands.md docs/fstune.1
	@$(VENV)/bin/python -m api.schema

pictures: setup ## take the pictures of the pages in docs/pictures anew
	@$(VENV)/bin/python -m tests.pictures

dist: setup ## build dist/fstune-VERSION.whl, to be installed where there is no checkout
	@rm -rf dist
	@$(VENV)/bin/python -m hatchling build -t wheel -d dist

lock: $(TOOLS) ## resolve dependencies into uv.lock; LOCK=--upgrade takes the newest
	@$(SAME_INDEX); $(UV) lock --python build/tools/bin/python $(LOCK)
	@build/tools/bin/python deploy/lock.py uv.lock

clean: ## remove all that make has made here
	@rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

$(TOOLS):
	@echo "setup: making build/tools (uv $(UV_VERSION))"
	@first() { for p in $(PYTHONS); do if "$$p" -c "$$1" 2>/dev/null; then command -v "$$p"; return; fi; done; }; \
	version='import sys; sys.exit(sys.version_info < (3, 11))'; \
	python=$$(first "import ensurepip, venv; $$version"); \
	if [ -z "$$python" ]; then \
	    python=$$(first "$$version"); \
	    if [ -z "$$python" ]; then \
	        echo "setup: no Python 3.11 or newer on PATH; install one and run make again" >&2; exit 1; fi; \
	    package=$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
	    if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	        echo "setup: $$python cannot make virtual environments; install $$package and run make again" >&2; exit 1; fi; \
	    echo "setup: installing $$package"; \
	    install="apt-get -o DPkg::Lock::Timeout=300 install -y -qq $$package"; \
	    { $$install || { apt-get update -qq && $$install; }; } >/dev/null; \
	fi; \
	rm -rf build/tools; "$$python" -m venv build/tools
	@build/tools/bin/python -m pip install -q --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

$(STAMP): pyproject.toml uv.lock | $(TOOLS)
	@echo "setup: installing the locked dependencies into $(VENV)"
	@$(UV) export -q --frozen --python build/tools/bin/python --no-emit-project --no-header --no-annotate -o build/requirements.txt
	@$(VENV)/bin/python -c '' 2>/dev/null || $(UV) venv -q --clear --python "$$(build/tools/bin/python -c 'import sys; print(sys._base_executable)')" $(VENV)
	@$(SAME_INDEX); $(UV) pip sync -q --python $(VENV)/bin/python --compile-bytecode --require-hashes build/requirements.txt
	@$(UV) pip install -q --python $(VENV)/bin/python --offline --no-deps --no-build-isolation --editable .
	@touch $@
