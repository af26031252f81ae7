# Every target sets up what it needs by itself: the environment from hashed lock files, and where a real API server
# is needed its binaries (found, fetched or built once, and cached outside the tree).

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ROOMS  := cloudprofile controlplane conversion crds kube migrator

# Tests start restow hundreds of times as a process of its own. An image that forbids to keep compiled modules would have
# each of them compile a hundred modules first; they are kept outside of the folders of the sources.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/pycache

# So many processes share the tests, each with a control plane of its own. Half of a test's time is waiting, so four
# keep two cores busy.
JOBS ?= 4
SHARE := --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: check readme figures bench-others help demo test test-matrix test-kind test-node nightly test-pure lint format bench bench-migration bench-conversion lock docs pictures man audit sbom release bench-references bench-cloudprofile bench-rules manifests binaries browser node-packages deploy-tools charts image faults histories peers mutants golden clean view

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The developers' environment is enough for the demo; without it the demo installs only what it needs.
demo: $(or $(wildcard $(READY)),$(VENV)/.demo) ## The life of an API version on a real kube-apiserver (KEEP=1 leaves it running)
	$(BIN)/python -m demo $(if $(KEEP),--keep)

test: $(READY) binaries browser deploy-tools ## The whole test suite, on a real kube-apiserver and etcd
	$(BIN)/python -m pytest $(SHARE) $(PYTEST_ARGS)

test-matrix: $(READY) ## The tests on the API server, once for each Kubernetes minor that is pinned (RECORD=1)
	$(BIN)/python -m tests.matrix $(RECORDED) -- $(SHARE) $(PYTEST_ARGS)

test-kind: $(READY) ## The tests and the chart on a kind cluster: make test-kind BASE=…@sha256:…
	$(BIN)/python deploy/tools/kind.py "$(BASE)" $(PYTEST_ARGS)

test-node: $(READY) node-packages ## The chart in real pods, on two nodes that exist only for it
	$(BIN)/python -m tests.node $(PYTEST_ARGS)

# Every night, as root on Debian or Ubuntu: what takes longer than a change waits for.
nightly: test-node test-matrix faults histories ## All that is not in make test, one after the other: for a job that runs every night

test-pure: $(READY) browser deploy-tools ## Only the tests that need no API server
	$(BIN)/python -m pytest $(SHARE) -m "not apiserver" $(PYTEST_ARGS)

SINCE ?= main

check: $(READY) view ## Lint and types of a change, and the tests that mirror or import it: in a minute (SINCE=main)
	$(BIN)/python -m tests.check --since $(SINCE)

lint: $(READY) view ## Style, types, the rooms' directions, and what the code may weigh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --config-file pyproject.toml -p restow -p demo -p hack
	cd .view && ../$(BIN)/lint-imports --config ../importlinter.toml --cache-dir ../.cache/import-linter
	$(BIN)/python -m pytest -q tests/packaging/test_weight.py tests/packaging/test_rule_kinds.py

format: $(READY) ## Format the sources
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# make bench RECORD=1: what is measured goes into benchmarks/results/, and from there into the documentation.
RECORD   ?=
RECORDED := $(if $(RECORD),--record)

bench: bench-conversion bench-migration bench-references bench-cloudprofile bench-rules bench-others ## Measure everything (about 45 minutes; RECORD=1: for the documentation)
	$(if $(RECORD),$(BIN)/python -m benchmarks.figures)

readme: $(READY) ## Write what the README's commands print into it
	RESTOW_RENEW_README=1 $(BIN)/python -m pytest -q tests/docs/test_readme.py

figures: $(READY) ## Write the recorded figures, benchmarks/results/, into README.md and docs/
	$(BIN)/python -m benchmarks.figures

bench-migration: $(READY) binaries ## Compare the migrator with its alternatives, on the same API server
	$(BIN)/python -m benchmarks.migration $(RECORDED) $(BENCH_ARGS)

bench-conversion: $(READY) ## Compare the webhook with one that does nothing, and with controller-runtime's
	$(BIN)/python -m benchmarks.conversion $(RECORDED) $(BENCH_ARGS)

bench-references: $(READY) binaries deploy-tools ## Compare the search for references with kubectl and jq, and with Helm
	$(BIN)/python -m benchmarks.references $(RECORDED) $(BENCH_ARGS)

bench-cloudprofile: $(READY) binaries ## Measure the operator with a large CloudProfile and all that uses it
	$(BIN)/python -m benchmarks.cloudprofile $(RECORDED) $(BENCH_ARGS)

bench-rules: $(READY) binaries ## Measure the operator with ConversionRules for thousands of kinds
	$(BIN)/python -m benchmarks.rules $(RECORDED) $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.tenants $(RECORDED)

bench-others: $(READY) binaries ## Measure standard rules, CloudProfile's rules, wiring that is undone, and the demo
	$(BIN)/python -m benchmarks.conversion.standardrules $(RECORDED)
	$(BIN)/python -m benchmarks.cloudprofile --rules --full $(RECORDED)
	$(BIN)/python -m benchmarks.wiring $(RECORDED)
	$(BIN)/python -m benchmarks.demo $(RECORDED)

browser: ## Chromium, with which the tests look at the report
	@command -v chromium chromium-browser google-chrome >/dev/null || \
	  { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && \
	    apt-get -o Acquire::Retries=3 update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get -o Acquire::Retries=3 install -y -qq --no-install-recommends chromium >/dev/null; } || \
	  echo "There is no Chromium: the tests of the report will say so."

NODE_PACKAGES := containerd runc containernetworking-plugins nftables iproute2 busybox-static

node-packages: ## containerd and what goes with it, for make test-node
	@dpkg -s $(NODE_PACKAGES) >/dev/null 2>&1 || \
	  { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && \
	    apt-get -o Acquire::Retries=3 update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get -o Acquire::Retries=3 install -y -qq --no-install-recommends $(NODE_PACKAGES) >/dev/null; } || true

deploy-tools: $(READY) ## Helm, kustomize and linters, built or found once, and cached outside the tree
	$(BIN)/python deploy/tools/tools.py

charts: deploy-tools ## Write what in deploy/ follows from the chart and the CRDs
	$(BIN)/python deploy/generate.py

image: $(READY) ## The container image: make image BASE=…@sha256:… TAG=… (TRIM=--without-cel)
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .
	$(BIN)/python deploy/image/build.py "$(BASE)" "$(TAG)" $(TRIM)

SEEDS ?= 1..100

faults: $(READY) binaries ## Seeded faults in front of a real API server, judged by what etcd holds (SEEDS=a..b)
	$(BIN)/python -m tests.faults $(SEEDS) $(RECORDED)

histories: $(READY) binaries ## Every yes of restow ready over seeded histories, on two API servers (SEEDS=a..b)
	$(BIN)/python -m tests.histories $(SEEDS) $(RECORDED)

peers: $(READY) ## Renew what other projects' code said to the tests; then ask it ten thousand times for each kind
	$(BIN)/python -m tests.upstream.files
	$(BIN)/python -m tests.peers.renew
	$(BIN)/python -m tests.peers $(RECORDED)
	RESTOW_HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -q tests/peers/gardener

MUTANTS := .cache/mutants/bin

mutants: $(MUTANTS)/.ready ## Change what decides in one place at a time: does a test notice? (TARGETS="overrides prune")
	nice -n 19 $(MUTANTS)/python tests/mutants.py $(TARGETS)

$(MUTANTS)/.ready: requirements/mutants.txt
	$(PYTHON) -m venv .cache/mutants
	$(MUTANTS)/pip install -q --disable-pip-version-check --require-hashes -r $<
	touch $@

golden: $(READY) ## Record the generated code, messages and explanations again, after a change of them that is meant
	RESTOW_RENEW_GOLDEN=1 $(BIN)/python -m pytest -q tests/conversion/golden

binaries: $(READY) ## Make sure that the control plane's binaries are there
	$(BIN)/python -m restow.controlplane binaries --with kubectl --with kube-controller-manager

manifests: $(READY) ## Write crds/manifests/ from its source, hack/crds/
	$(BIN)/python -m hack.crds

lock: $(READY) ## Renew the hashed lock files from pyproject.toml
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --all-extras pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --extra cli --extra operator --extra report pyproject.toml -o requirements/image.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --all-extras --group dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --group audit -o requirements/audit.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --extra cli --extra controlplane --extra operator --group checkout -c requirements/dev.txt \
	  pyproject.toml -o requirements/demo.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --all-extras --group docs pyproject.toml -o requirements/docs.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --all-extras --group dev --group mutants -c requirements/dev.txt pyproject.toml -o requirements/mutants.txt

pictures: $(READY) binaries ## The pictures of the README, docs/images/: the journey, and the demo in a terminal
	$(BIN)/python -m docs.pictures

man: $(READY) ## The manual pages, dist/man/restow*.1
	rm -rf dist/man
	$(BIN)/python -m restow.manpages dist/man

DOCS := .cache/docs/bin

docs: $(DOCS)/.ready ## The documentation as a site, in dist/docs/
	$(DOCS)/sphinx-build -q -W --keep-going -j auto docs dist/docs

$(DOCS)/.ready: requirements/docs.txt pyproject.toml
	$(PYTHON) -m venv .cache/docs
	$(DOCS)/pip install -q --disable-pip-version-check --require-hashes -r $<
	$(DOCS)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

AUDIT := .cache/audit/bin

audit: $(AUDIT)/.ready ## Known vulnerabilities of everything that is locked
	for locked in requirements/*.txt; do $(AUDIT)/pip-audit --disable-pip --require-hashes --strict -r $$locked || exit 1; done

sbom: $(AUDIT)/.ready ## What an installation with all extras consists of, as dist/restow.cdx.json (CycloneDX)
	mkdir -p dist
	$(AUDIT)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	  --output-format JSON --output-file dist/restow.cdx.json requirements/runtime.txt

release: $(READY) sbom ## Everything that a release consists of, in dist/release/, with the same bytes each time
	$(BIN)/python deploy/release.py dist/release --sbom dist/restow.cdx.json

$(AUDIT)/.ready: requirements/audit.txt
	$(PYTHON) -m venv .cache/audit
	$(AUDIT)/pip install -q --disable-pip-version-check --require-hashes -r $<
	touch $@

clean: ## Remove the environment and caches of this checkout
	rm -rf $(VENV) .view .cache build dist *.egg-info

$(READY): requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.demo: requirements/demo.txt pyproject.toml
	@echo "Installing what the demo needs into $(VENV), once."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/demo.txt
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Static tools look for restow.kube inside of restow/; the rooms are next to it. A tree of links, rebuilt each time.
view:
	rm -rf .view
	mkdir -p .view
	cp -rs $(CURDIR)/restow .view/restow
	for room in $(ROOMS); do cp -rs $(CURDIR)/$$room .view/restow/$$room; done
	for tool in demo hack; do cp -rs $(CURDIR)/$$tool .view/$$tool; done
