# Every command of the project. Each works on a fresh machine: what it needs is fetched or built first.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

# demo: an existing cluster instead of our own (make demo CONTEXT=name), and images it can pull.
CONTEXT ?=
IMAGE ?=
RAY_IMAGE ?=
# image: what builds it, for example podman, and more words for it, as BUILD_ARGS="--build-arg BASE=debian:bookworm-slim@sha256:…".
DOCKER ?= docker
BUILD_ARGS ?=
# audit: another service than https://api.osv.dev, for example a mirror of one's own.
AUDIT_URL ?=
# bench: how many RayClusters.
CLUSTERS ?= 1000
# bench-jobs: how many RayJobs, and how many of their dashboards hang in the last run.
JOBS ?= 1000
HUNG ?= 50
# sim: how many steps at least, of which stories (all, clusters or services), or one seed only, to play a failure again
# (make sim SEED=42).
STEPS ?= 1000000
STORIES ?= all
SEED ?=
# sim-day: how many hours.
HOURS ?= 24
# Names of the clusters that tests use; two checkouts can run side by side with different prefixes.
PREFIX ?= test
# test-kube: how many workers, each with a cluster of its own. Scenarios are compared to the second: more than one needs more than two processors.
WORKERS ?= 1
# More words for pytest, for example: make test-e2e PYTEST="-k autoscal -x"
PYTEST ?=

UV := $(shell command -v uv 2>/dev/null || echo $(CURDIR)/.cache/uv/bin/uv)
BIN := .venv/bin
WITH_CLUSTER := python3 dev/with_cluster.py
UNIT_PATHS := core testkit plugins tests/tree
export UV

.PHONY: help
help: ## show this list
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# --- the environment -------------------------------------------------------------------------------------------------

$(CURDIR)/.cache/uv/bin/uv:
	@echo "fetching uv (it is not on PATH)"
	python3 -m pip install --quiet --target $(CURDIR)/.cache/uv uv

# Follows the lock file; costs a fraction of a second when nothing changed.
.PHONY: sync
sync: $(UV)
	@$(UV) sync --frozen --quiet

# Compiled once. Tests of charts call it where the network is the cluster's own.
.PHONY: helm
helm:
	@dev/cluster helm > /dev/null

.PHONY: cluster-build
cluster-build:
	@dev/cluster build

# --- to look at it ---------------------------------------------------------------------------------------------------

.PHONY: demo
demo: sync ## a Ray job on a real Kubernetes through our operator; CONTEXT=name uses an existing cluster
	@$(BIN)/python -m dev.demo.run up --context "$(CONTEXT)" --image "$(IMAGE)" --ray-image "$(RAY_IMAGE)"

.PHONY: demo-serve
demo-serve: sync ## a Serve app upgraded step by step through a gateway, while requests are sent and counted
	@$(BIN)/python -m dev.demo.run serve --context "$(CONTEXT)"

.PHONY: demo-down
demo-down: sync ## remove everything the demo made
	@$(BIN)/python -m dev.demo.run down --context "$(CONTEXT)"

# --- tests -----------------------------------------------------------------------------------------------------------

.PHONY: test
test: ## everything needed before a merge: unit, packages, simulation, API server, short end-to-end
	@python3 dev/levels.py test-unit test-packaging cluster-build test-charts test-monitoring test-sim test-kube test-e2e

.PHONY: test-all
test-all: ## as `test` with LONG=1, the long simulation and every end-to-end test
	@LONG=1 python3 dev/levels.py test-unit test-packaging cluster-build test-charts test-monitoring sim test-kube-all test-e2e-all

.PHONY: test-unit
test-unit: sync ## unit tests of core, plugins and testkit; LONG=1: all examples (else a fifth), and broken plugins that write without end
	@$(BIN)/pytest -q -n 2 $(UNIT_PATHS) $(PYTEST)

.PHONY: test-packaging
test-packaging: sync ## build every wheel and install each alone
	@$(BIN)/pytest -q -n 2 --dist loadfile tests/packaging $(PYTEST)

.PHONY: test-charts
test-charts: sync ## the Helm charts rendered over many values, and held against what the operator says it needs
	@$(BIN)/pytest -q -n 2 tests/charts $(PYTEST)

.PHONY: test-monitoring
test-monitoring: sync ## rules, alerts and dashboards, by promtool and against what the operator exports
	@$(BIN)/pytest -q tests/monitoring $(PYTEST)

.PHONY: test-sim
test-sim: sync ## the real runtime on a simulated Kubernetes, with faults: 2 seeds, kills at every third request; LONG=1: 5, at each
	@PYTHONHASHSEED=0 $(BIN)/pytest -q -n 2 --dist worksteal tests/sim $(PYTEST)

.PHONY: sim
sim: sync ## test-sim with LONG=1, then random scripts until STEPS steps are made, and sim-day; SEED=n plays only that one
	@if [ -z "$(SEED)" ]; then LONG=1 PYTHONHASHSEED=0 $(BIN)/pytest -q -n 2 --dist worksteal tests/sim $(PYTEST); fi
	$(BIN)/python -m kuberay_testkit.sim.long --steps $(STEPS) --stories $(STORIES) $(if $(SEED),--seed $(SEED)) --plugin autoscaler-v2 --plugin gateway-upgrade
	@if [ -z "$(SEED)" ]; then $(MAKE) --no-print-directory sim-day; fi

.PHONY: sim-day
sim-day: sync ## a simulated day of an operator: memory, series and statuses must be steady (docs/performance.md)
	$(BIN)/python -m kuberay_testkit.sim.day --hours $(HOURS) --plugin autoscaler-v2 --plugin gateway-upgrade

.PHONY: test-kube
test-kube: sync helm ## against a real API server, pods played by a fake kubelet
	@$(WITH_CLUSTER) --name $(PREFIX)-kube --nodes 0 --gateway kinds --workers $(WORKERS) $(BIN)/pytest -q --dist loadscope tests/kube -m "not long" $(PYTEST)

.PHONY: test-kube-all
test-kube-all: sync helm ## the same with those that take minutes: faults of the cluster, the start beside a thousand RayClusters
	@$(WITH_CLUSTER) --name $(PREFIX)-kube --nodes 0 --gateway kinds --workers $(WORKERS) $(BIN)/pytest -q --dist loadscope tests/kube $(PYTEST)

.PHONY: test-e2e
test-e2e: sync helm ## real containers and real Ray: the short part
	@$(WITH_CLUSTER) --name $(PREFIX)-e2e --nodes 1 --gateway traefik $(BIN)/pytest -q tests/e2e -m "not long" $(PYTEST)

.PHONY: test-e2e-all
test-e2e-all: sync helm ## real containers and real Ray: everything
	@$(WITH_CLUSTER) --name $(PREFIX)-e2e --nodes 1 --gateway traefik $(BIN)/pytest -q tests/e2e $(PYTEST)

.PHONY: bench
bench: sync cluster-build ## load and cost of CLUSTERS RayClusters against the floor (docs/performance.md)
	@mkdir -p .cache/bench
	bench/scenario.sh --clusters $(CLUSTERS) --floor --phases > .cache/bench/floor.json
	bench/scenario.sh --clusters $(CLUSTERS) --phases > .cache/bench/operator.json
	bench/scenario.sh --clusters 100 --quiet 1 > .cache/bench/small.json
	$(BIN)/python -m bench.report .cache/bench/floor.json .cache/bench/operator.json .cache/bench/small.json

.PHONY: bench-plugin
bench-plugin: sync cluster-build ## what a plugin costs that implements every hook of a pass and does nothing
	@mkdir -p .cache/bench
	for run in 1 2 3; do
		bench/scenario.sh --clusters $(CLUSTERS) --quiet 1 > .cache/bench/plain-$$run.json
		bench/scenario.sh --clusters $(CLUSTERS) --quiet 1 --noop-plugin > .cache/bench/noop-$$run.json
	done
	$(BIN)/python -m bench.plugin_report .cache/bench/plain-{1,2,3}.json -- .cache/bench/noop-{1,2,3}.json

.PHONY: bench-large
bench-large: sync cluster-build ## the same with five times as many, beside the figures of `make bench`
	bench/scenario.sh --clusters $$((5 * $(CLUSTERS))) --floor > .cache/bench/large-floor.json
	bench/scenario.sh --clusters $$((5 * $(CLUSTERS))) > .cache/bench/large.json
	$(BIN)/python -m bench.growth $(addprefix .cache/bench/,floor.json operator.json large-floor.json large.json)

.PHONY: bench-jobs
bench-jobs: sync cluster-build ## JOBS RayJobs in HTTP mode against simulated dashboards, HUNG of which hang (docs/performance.md)
	@mkdir -p .cache/bench
	bench/jobs.sh --jobs $$(($(JOBS) / 4)) > .cache/bench/jobs-small.json
	bench/jobs.sh --jobs $(JOBS) > .cache/bench/jobs.json
	bench/jobs.sh --jobs $(JOBS) --hung $(HUNG) > .cache/bench/jobs-hung.json
	$(BIN)/python -m bench.jobs_report $(addprefix .cache/bench/,jobs-small.json jobs.json jobs-hung.json)

.PHONY: dashboards
dashboards: sync ## pictures of the Grafana dashboards, from a real run with Prometheus, in .cache/dashboards
	@$(WITH_CLUSTER) --name $(PREFIX)-e2e --nodes 1 --gateway traefik $(BIN)/pytest -q tests/e2e/test_monitoring.py $(PYTEST)
	$(UV) run --quiet --isolated --frozen --group pictures python -m dev.dashboards.pictures

# --- code ------------------------------------------------------------------------------------------------------------

.PHONY: lint
lint: sync ## ruff, mypy, import rules, generated files
	@failed=""
	check() { echo "--- $$*"; "$$@" || failed="$$failed $$1"; }
	check $(BIN)/ruff check .
	check $(BIN)/ruff format --check .
	check $(BIN)/mypy core/src/kuberay testkit/src/kuberay_testkit $(wildcard plugins/*/src/*)
	check $(BIN)/lint-imports
	check $(BIN)/python -m dev.generate --check
	if [ -n "$$failed" ]; then echo "lint failed:$$failed" >&2; exit 1; fi

.PHONY: generate
generate: sync ## write the generated files again: CRDs, RBAC, pages made from docstrings
	@$(BIN)/python -m dev.generate

# --- what the operator's image is made of ----------------------------------------------------------------------------

.PHONY: image
image: ## the operator's image, with docker (DOCKER=podman: with that): make image IMAGE=registry/operator:tag
	@$(DOCKER) build --file image/Dockerfile --tag "$(or $(IMAGE),kuberay/operator:dev)" $(BUILD_ARGS) .

.PHONY: wheels
wheels: $(UV) ## the packages of this tree in dist/, for pip install --find-links dist, or for an index of yours
	@rm -f dist/*.whl
	$(UV) build --all-packages --wheel --quiet --out-dir dist
	ls dist/*.whl

.PHONY: sbom
sbom: sync ## the Python packages of the image, as dist/sbom.cdx.json (CycloneDX); the image itself has it as /opt/kuberay/sbom.cdx.json
	@mkdir -p dist
	FORMAT=cyclonedx1.5 sh image/requirements.sh | $(BIN)/python image/sbom.py > dist/sbom.cdx.json
	echo "dist/sbom.cdx.json"

.PHONY: print-requirements
print-requirements: $(UV)
	@sh image/requirements.sh

.PHONY: audit
audit: $(UV) ## known vulnerabilities of the Python packages in the image; asks https://api.osv.dev, or the service AUDIT_URL names
	@$(UV) audit --frozen --no-dev --no-group pictures --preview-features audit-command $(if $(AUDIT_URL),--service-url "$(AUDIT_URL)") || {
		code=$$?
		if [ $$code -ne 1 ]; then echo "nothing is known of vulnerabilities: no answer (AUDIT_URL names another service)" >&2; fi
		exit $$code
	}

.PHONY: licenses
licenses: sync ## the licence of each Python package in the image; fails at one that is not known to be permissive
	@$(BIN)/python -m dev.licenses

.PHONY: clean
clean: ## take clusters of this project's names down and remove what tools left in the tree
	@for name in demo bench $(patsubst %,$(PREFIX)-kube-%,$(shell seq $(WORKERS))) $(PREFIX)-e2e; do dev/cluster --name $$name down; done
	rm -rf dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
