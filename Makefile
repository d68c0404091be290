# Everything from a bare machine: `make demo` and `make test` install what is missing, build, and run.
#
#   make demo     run the demonstration; its output is in demo/
#   make check    the quick loop, a minute on two cores: lint, C tests, unit tests
#   make test     lint, C tests, C tests under sanitizers, Python and system tests
#   make sanitize C tests under ASan and UBSan   make docs     build the site in build/docs and check it, run the code of README and docs
#   make lint     ruff, mypy, clang-format       make format   apply what the linters can
#   make fuzz     10 million inputs for every decoder (FUZZ_RUNS=...); findings stay in build-fuzz/
#   make chaos    a minute of killing processes; make inject: every call fails in turn; make soak: 20 minutes, all flat?
#   make rewind   200 generated programs, compiled in every way: the same bits as forked?
#   make truth    500 runs of four simulators against their exact evidence, into truth/ and docs/results/truth; half an hour
#   make build    CMake build in build/          make clean    remove everything that was made here
#   make dist     sdist and wheel, in dist/       make release  those that could be published, checked; publishes nothing
#   make bench    measure speed, and renew docs/performance.md
#   make generators  fetch, build and run Pythia 8 and NCrystal in build-generators/, and renew docs/generators.md; can be interrupted
#   make results  the paper's experiments in full, into results/ and docs/results/; hours, can be interrupted
#
# Variables: PYTHON (python3), JOBS (all cores), PYTEST_ARGS (make test PYTEST_ARGS='-k nested').

PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PYTEST_ARGS ?=
RESULTS_ARGS ?=
GENERATORS_ARGS ?=
BUILD := build
BUILD_ASAN := build-asan
BUILD_FUZZ := build-fuzz
FUZZ_RUNS ?= 10000000
VENV := .venv
export PYTHON JOBS PYTEST_ARGS BUILD BUILD_ASAN BUILD_FUZZ FUZZ_RUNS VENV

# Constraints given with -c do not reach the environments that pip makes to build packages in; this variable does.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP_INSTALL := $(VENV)/bin/python -m pip install -qq --no-input -c constraints.txt

# What the installed package is made of. Directories are listed too: their time changes when a file is removed.
WHEEL_SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE \
    $(shell find bridge csim pyside cmake \( -name __pycache__ -o -name '*.so' \) -prune -o -print)

SHELL := /bin/bash
.SHELLFLAGS := -e -u -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: all demo check test sanitize docs site dist fuzz release chaos inject rewind soak truth build build-asan install lint lint-only format clean setup-build setup-test bench results generators

all: build

demo: install
	$(VENV)/bin/ars demo --out demo

# Hours. It goes on where it was interrupted; RESULTS_ARGS='--repeats 100 --traces 100000' has the paper's runs.
results: install
	$(VENV)/bin/ars reproduce all --full --out results --publish docs/results $(RESULTS_ARGS)

# Packages, executables and stages are kept in build-generators/: an interrupted run goes on. GENERATORS_ARGS='pythia --quick' runs
# less, and leaves docs/ alone.
generators: install
	$(VENV)/bin/python -m ars_lab.generators --out build-generators --publish docs $(GENERATORS_ARGS)

bench: install
	$(VENV)/bin/ars bench all --out docs/performance.json --plots docs/figures --into docs/performance.md

check: setup-test install build
	@tools/test.sh check

test: setup-test install build build-asan
	@tools/test.sh

sanitize: setup-test build-asan
	@ctest --test-dir $(BUILD_ASAN) --output-on-failure --no-tests=error -j $(JOBS)

fuzz: setup-test install
	@tools/fuzz.sh

docs: site
	$(LONG_TEST) tests/system/test_docs.py tests/system/test_readme.py tests/system/test_tutorials.py tests/system/test_ladder_page.py tests/unit/test_project.py

# The pages, in build/docs: open build/docs/index.html.
site: setup-test install build
	$(VENV)/bin/sphinx-build --quiet --fail-on-warning --nitpicky --keep-going --jobs $(JOBS) docs $(BUILD)/docs
	$(VENV)/bin/python tools/site_check.py $(BUILD)/docs
	$(VENV)/bin/codespell --quiet-level 3 README.md CONTRIBUTING.md CHANGELOG.md bridge/include bridge/PROTOCOL.md csim docs pyside

dist: setup-build $(VENV)/.requirements
	@rm -rf dist
	@$(VENV)/bin/python -m build --no-isolation --outdir dist .

# The sdist, and a wheel for every Python of this machine that we support, with libzmq inside, each tried in a fresh environment.
release: setup-build $(VENV)/.requirements
	@$(PIP_INSTALL) $$($(VENV)/bin/python tools/requirements.py release)
	@$(VENV)/bin/python tools/release.py --out dist

# ---- the long forms of tests that are short in `make test` -------------------------------------------------------

LONG_TEST = ARS_BUILD_DIR=$(CURDIR)/$(BUILD) ARS_CSIM_DIR=$(CURDIR)/$(BUILD)/csim $(VENV)/bin/python -m pytest -q

chaos: setup-test install build
	ARS_CHAOS_SECONDS=60 ARS_CLUSTER=all $(LONG_TEST) tests/system/test_chaos.py tests/system/test_cluster.py -o log_cli=true

inject: setup-test install build
	ARS_INJECT=all $(LONG_TEST) tests/system/test_injection.py

rewind: setup-test install build
	ARS_REWIND=all $(LONG_TEST) tests/system/test_rewind_programs.py

soak: setup-test install build
	$(VENV)/bin/python tools/soak.py --seconds 1200 --simulators $(BUILD)/csim

# Goes on where it was interrupted: what has been run is in truth/.
truth: setup-test install build
	$(VENV)/bin/python tools/truth.py --simulators $(BUILD)/csim --out truth --publish docs/results/truth

lint: setup-test install lint-only

lint-only:
	@tools/lint.sh

format: setup-test $(VENV)/.requirements
	@tools/lint.sh --fix

setup-build:
	@tools/setup.sh build

setup-test:
	@tools/setup.sh test

# ---- C and C++ -------------------------------------------------------------------------------------------------

define cmake_build
	@if [ ! -e $(1)/CMakeCache.txt ]; then \
	    cmake -S . -B $(1) $$(command -v ninja >/dev/null && echo -G Ninja) $(2) >$(1).log 2>&1 \
	        || { cat $(1).log; rm -rf $(1) $(1).log; exit 1; }; rm -f $(1).log; fi
	@cmake --build $(1) --parallel $(JOBS) -- $$(test -e $(1)/build.ninja && echo --quiet)
endef

build: setup-build
	@echo "Building in $(BUILD)/"
	$(call cmake_build,$(BUILD),-DARS_WERROR=ON)

build-asan: setup-build
	@echo "Building in $(BUILD_ASAN)/, with sanitizers"
	$(call cmake_build,$(BUILD_ASAN),-DARS_WERROR=ON -DARS_SANITIZE=address$(comma)undefined)

comma := ,

# ---- Python ----------------------------------------------------------------------------------------------------

install: setup-build $(VENV)/.installed

$(VENV)/.requirements: pyproject.toml constraints.txt tools/requirements.py
	@echo "Installing Python packages in $(VENV)/"
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python tools/requirements.py dev >$(VENV)/requirements.txt
	@$(PIP_INSTALL) -r $(VENV)/requirements.txt
	@touch $@

# Installed as a user would have it, not in place: what is tested is what is shipped.
$(VENV)/.installed: $(VENV)/.requirements $(WHEEL_SOURCES)
	@echo "Building and installing the package ars in $(VENV)/"
	@$(PIP_INSTALL) --no-build-isolation --no-deps --force-reinstall .
	@touch $@

clean:
	rm -rf $(BUILD) $(BUILD_ASAN) $(BUILD_FUZZ) build-generators $(BUILD).log $(BUILD_ASAN).log $(VENV) demo dist .mypy_cache .ruff_cache .pytest_cache \
	    .hypothesis truth
	find . -name __pycache__ -prune -exec rm -rf {} +
