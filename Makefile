# One target per intention. Each makes the virtual environment .venv first when there is none or pyproject.toml changed,
# so that on a fresh machine with Python 3.11 or newer `make demo` and `make test` are all one has to type.

VENV ?= .venv
STAMP := $(VENV)/.installed
RUN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)/python
# The first interpreter that is new enough; override with `make PYTHON=/path/to/python test`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

# Tests start hundreds of processes: without bytecode each of them would compile the source again.
export PYTHONDONTWRITEBYTECODE :=

# The packages in the environment (pyproject.toml): those of the tests alone are half of them.
EXTRA ?= dev
# further packages of the environment
ALSO ?=
# What `make test` runs, with how many processes; SHUFFLE=7 runs it in the random order of that seed.
TESTS ?= tests
WORKERS ?= auto
PYTEST = OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n $(WORKERS) --dist worksteal $(if $(SHUFFLE),--shuffle $(SHUFFLE))

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-others test-keras check house docs site look pictures dist bench format clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1	\2/'

demo: $(STAMP) ## a tour in under a minute, ending with a picture and a report
	$(RUN) -m gradtape demo

test: $(STAMP) ## all tests, one process per core; SHUFFLE=seed, WORKERS=n, TESTS="tests/tape ..."
	$(PYTEST) $(TESTS)

test-all: check ## lint and types, then all tests with more random programs, of fresh seeds, all derivatives twice; coverage
	$(PYTEST) $(TESTS) --programs 1000 --fresh --cov --cov-report=term

test-keras: $(STAMP) ## Keras's own tests on gradtape, from the installed package; KERAS="losses layers/core" for some, BESIDE="environment ..." with peers
	OPENBLAS_NUM_THREADS=1 $(RUN) -m tests.keras.suite $(BESIDE:%=--beside %) $(KERAS)

# What depends on the interpreter: syntax, code objects, frames, reference counts, the layout of objects. What programs mean and
# what machine code computes does not, nor how many random programs there are: the first interpreter has had the rest.
# (`.github/workflows/ci.yml` runs everything on each.) One target for each, so that `make -j` runs them together.
OTHERS := tests/autograph tests/frontend tests/function tests/backends tests/tape/test_memory.py tests/tape/test_updates.py \
	$(patsubst %,--ignore=tests/function/test_%.py,memory_limit open_batches unknown_sizes watched_homes) \
	$(patsubst %,--ignore=tests/backends/test_native_%.py,bounds complex fuzz gemm guards joins length math ops places products programs reductions) \
	$(patsubst %,--ignore=tests/backends/test_%.py,bufferize column_loops gathered_writes grouping schedule)
VERSIONS = $(if $(filter test-others,$(MAKECMDGOALS)),$(filter-out $(shell bash .ci/pythons of $(PYTHON)),$(shell bash .ci/pythons)))
# One of them has the oldest Keras that gradtape runs; `make test` has the newest.
WITH_KERAS = $(if $(filter 3.12,$*),$1)
test-others: $(VERSIONS:%=test-on-%) ## the suites that depend on the interpreter, on every other Python from 3.11 on that is found
test-on-%:
	@echo "== Python $*"
	@$(MAKE) --no-print-directory VENV=.venv-$* PYTHON="$$(bash .ci/pythons path $*)" EXTRA=test $(call WITH_KERAS,ALSO="'keras==3.10.*'") \
		TESTS="$(OTHERS) $(call WITH_KERAS,tests/keras) --programs 50" test

check: $(STAMP) ## lint, types, and the arrows between layers
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m pip install --quiet --disable-pip-version-check basedpyright # pyright's engine, for users' typed programs
	$(RUN) -m pytest tests/structure/test_layers.py tests/structure/test_types.py

house: $(STAMP) ## sizes, cycles, hops and names of the source against their goals; SHOW=key lists the places, TIGHTEN=1 lowers bounds
	OPENBLAS_NUM_THREADS=1 $(RUN) -m tests.structure.house $(SHOW:%=--show %) $(if $(TIGHTEN),--tighten)

docs: $(STAMP) ## run every example of the documentation
	$(RUN) -m pytest tests/structure/test_doctests.py tests/examples $(wildcard tests/docs)

# the generator has an environment of its own, so that `make test` stays small
SITE := .venv-site
site: $(SITE)/.installed ## the documentation as a site, warnings are errors: open _site/index.html
	OPENBLAS_NUM_THREADS=1 $(SITE)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)/python -m docs._ext.build

look: site ## the built site in Chromium: every page wide and narrow, light and dark; search, links, images, contrast; SCREENS=folder
	$(SITE)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)/python -m docs._ext.look $(SCREENS:%=--screens %)

pictures: $(SITE)/.installed ## run the programs of the gallery and of the Learn pages and draw their pictures again; screenshots, too, if there is Chromium
	OPENBLAS_NUM_THREADS=1 $(SITE)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)/python -m docs._ext.gallery
	OPENBLAS_NUM_THREADS=1 $(SITE)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)/python -m docs._ext.learn_pictures
	OPENBLAS_NUM_THREADS=1 $(SITE)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)/python -m docs._ext.screens

dist: $(STAMP) ## wheel and sdist in dist/, each installed and tried in an empty environment of every Python found
	$(RUN) -m pip install --quiet --disable-pip-version-check build
	rm -rf dist && $(RUN) -m build --quiet --outdir dist .
	for version in $$(bash .ci/pythons); do bash .ci/try-dist "$$(bash .ci/pythons path $$version)" || exit 1; done

bench: $(STAMP) ## measure against the peers; PEERS="jax torch" ONLY=name QUICK=1 THREADS=n
	OPENBLAS_NUM_THREADS=1 $(RUN) -m benchmarks --environments .benchmarks $(if $(PEERS),--peers $(PEERS)) $(ONLY:%=--only %) \
		$(if $(QUICK),--quick) $(if $(THREADS),--threads $(THREADS))
	$(if $(ONLY)$(QUICK)$(PEERS),,OPENBLAS_NUM_THREADS=1 $(RUN) -m benchmarks.first_calls \
		$(foreach peer,jax tensorflow torch,--python $(peer)=.benchmarks/$(peer)/bin/python))
	$(if $(ONLY)$(QUICK)$(PEERS),,OPENBLAS_NUM_THREADS=1 $(RUN) -m benchmarks.slowest)

format: $(STAMP) ## format the source
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix --select I .

clean: ## remove what the other targets made, except the virtual environment
	rm -rf demo_output dist build _site docs/reference/api docs/gallery/programs .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(SITE)/.installed: pyproject.toml
	test -d $(SITE) || "$(PYTHON)" -m venv $(SITE)
	$(SITE)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "gradtape needs Python 3.11 or newer: install it, or make PYTHON=/path/to/python"; exit 1; }
	test -x $(RUN) || "$(PYTHON)" -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRA)]' $(ALSO)
	@touch $@
