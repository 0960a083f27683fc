# Every verb of the project. `make` alone lists them.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(if $(shell command -v $(p)),$(p))))
V := .venv/bin
PYTEST := $(V)/python -m pytest --quiet
# pytest rewrites assertions, 1.5 ms for each of fourteen thousand: let it keep what it made, also in images that tell
# Python to write no bytecode (setup writes that of our modules all the same)
unexport PYTHONDONTWRITEBYTECODE
SIMULATION_BUDGET_S ?= 18
CONTROL_BUDGET_S ?= 6
STORE_BUDGET_S ?= 3
SERVICES_BUDGET_S ?= 4
MAJORITY_BUDGET_S ?= 3
ACTING_BUDGET_S ?= 3
# the same worlds for everyone; `make simulate` and SIMULATION_FROM= (empty: by chance) look for new ones
SIMULATION_FROM ?= known
SEEDS ?= 20
FROM ?= 1
WORLDS ?= cluster control store services majority acting
ARGS ?=
# unit tests write to memory where 8 GiB are free: their flushes would wait for a disk that tests nothing of theirs
IN_MEMORY ?= $(shell [ -w /dev/shm ] && [ "$$(df -Pk /dev/shm | awk 'END { print $$4 }')" -gt 8388608 ] && echo TMPDIR=/dev/shm)

# run SCRIPT ARGUMENTS, or say that it has not landed yet
run_script = @if [ -f $(1) ]; then exec $(V)/python $(1) $(2); else echo "make $@: $(1) is not there yet" >&2; exit 2; fi

.PHONY: help
help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

.PHONY: setup
setup: ## environment from the locked list, a Java if there is none, the jars (what exists is kept)
	@$(PYTHON) infra/environment.py

.PHONY: classes kafka-classes
classes: kafka-classes ## lay out the classes of Spark's and Kafka's Java, once for an environment (half a minute): each start takes half the time
	@$(V)/python -m infra.cluster.class_archive spark

kafka-classes: setup
	@$(V)/python -m infra.cluster.class_archive kafka

.PHONY: demo
demo: setup ## the main job on real parts: failovers under load, then the history from Delta (ARGS="--json --keep --dir D")
	@exec $(V)/regent demo $(ARGS)

.PHONY: test
test: setup ## everything that must be green: house, unit, golden, property, simulation's budget, integration (some 12 minutes on two cores)
	@$(MAKE) --no-print-directory --jobs 2 check-layout kafka-classes
	@$(MAKE) --no-print-directory --jobs 6 --output-sync=line check-types check-house $(PARTS)

.PHONY: test-long
test-long: classes ## what make test leaves out: tools interrupted, answers compared with Spark's, all cases of generated tests, a quarter of an hour of simulation
	REGENT_EXAMPLES=all $(PYTEST) -m long --durations=8 tests/integration tests/unit tests/property
	@$(MAKE) --no-print-directory REGENT_EXAMPLES=all test-tables test-parts
	@$(MAKE) --no-print-directory test-simulation SIMULATION_BUDGET_S=450 CONTROL_BUDGET_S=300 STORE_BUDGET_S=150 SERVICES_BUDGET_S=100 MAJORITY_BUDGET_S=60 ACTING_BUDGET_S=60

.PHONY: check
check: setup ## layout, small defects, types and the house rules, in under a minute
	@$(MAKE) --no-print-directory check-layout
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check-types check-house

.PHONY: check-layout check-types check-house
check-layout:
	@$(V)/ruff format --quiet --check . || { echo "make check: run make format" >&2; exit 1; }
	@$(V)/ruff check --quiet .

check-types:
	$(V)/mypy --no-error-summary

check-house:
	$(PYTEST) tests/house

.PHONY: format
format: setup ## lay the code out, and cure what can be cured without thinking
	@$(V)/ruff check --quiet --fix-only .
	@$(V)/ruff format .

# Test modules of a folder that hold such a mark: to import all others costs as much as some tests.
marked = $$(grep -rl 'mark\.$(1)' $(2) --include='test_*.py' | sort)

# Six at a time in this order, so that the long ones do not begin last: two cores are idle for much of the time
# with two, for much of what is tested is waiting. What a part needs of Java's classes it lays out itself: make
# begins what has to wait for another target behind all others. A unit test that wants a Kafka goes where one runs.
PARTS := test-lake test-integration-2 test-integration-1 test-simulation test-tables-1 test-parts-2 test-parts-1 test-spark test-tables-2
.PHONY: $(PARTS) test-parts test-tables test-integration
test-parts: test-parts-1 test-parts-2

# Brokers, and all others: two halves as well.
test-parts-1:
	$(IN_MEMORY) $(PYTEST) -m "not spark and not kafka and not long" tests/unit/brokers tests/scenarios

test-parts-2:
	$(IN_MEMORY) $(PYTEST) -m "not spark and not kafka and not long" --ignore tests/unit/lakehouse --ignore tests/unit/brokers tests/unit tests/conformance

test-tables: test-tables-1 test-tables-2

# Halves by the first letter, as below.
test-tables-1:
	$(IN_MEMORY) $(PYTEST) -m "not spark and not kafka and not long" $(filter-out %/conftest.py,$(wildcard tests/unit/lakehouse/[a-k]*)) $(wildcard tests/property)

test-tables-2:
	$(IN_MEMORY) $(PYTEST) -m "not spark and not kafka and not long" $(filter-out %/conftest.py,$(wildcard tests/unit/lakehouse/[l-z]*)) $(wildcard tests/golden)

test-simulation:
	REGENT_SIMULATION_BUDGET_S=$(SIMULATION_BUDGET_S) REGENT_CONTROL_BUDGET_S=$(CONTROL_BUDGET_S) REGENT_STORE_BUDGET_S=$(STORE_BUDGET_S) REGENT_SERVICES_BUDGET_S=$(SERVICES_BUDGET_S) REGENT_MAJORITY_BUDGET_S=$(MAJORITY_BUDGET_S) REGENT_ACTING_BUDGET_S=$(ACTING_BUDGET_S) REGENT_SIMULATION_FROM=$(SIMULATION_FROM) $(PYTEST) tests/simulation

test-integration: test-integration-1 test-integration-2

# Two halves of one length, by the first letter: these tests wait more than they work.
test-integration-1:
	@$(V)/python -m infra.cluster.class_archive kafka
	$(PYTEST) -m "not spark and not long" --durations=8 $(wildcard tests/integration/test_[a-k]*.py)

test-integration-2:
	@$(V)/python -m infra.cluster.class_archive kafka
	$(PYTEST) -m "not spark and not long" --durations=8 $(wildcard tests/integration/test_[l-z]*.py) $(call marked,kafka,tests/unit)

test-lake:
	@$(V)/python -m infra.cluster.class_archive spark
	$(PYTEST) -m "spark and not long" --durations=8 $(call marked,spark,tests/integration)

test-spark:
	@$(V)/python -m infra.cluster.class_archive spark
	$(PYTEST) -m "spark and not long" --durations=8 $(call marked,spark,tests/unit)

.PHONY: unit
unit: setup ## house and unit tests only (ARGS go to pytest)
	$(PYTEST) tests/house tests/unit $(ARGS)

.PHONY: simulate
simulate: setup ## the deterministic simulation, whole clusters, the control plane alone, stores alone, a set's services, groups by majority, sets without controllers: SEEDS=n FROM=k (WORLDS=store: that one only)
	@for script in $(patsubst %,tests/simulation/%.py,$(subst acting,acting/run,$(subst majority,majority/run,$(subst services,services/run,$(subst store,store/run,$(subst control,control/run,$(subst cluster,run,$(WORLDS)))))))); do \
	  $(V)/python $$script --seeds $(SEEDS) --from $(FROM) || exit $$?; done

.PHONY: interop
interop: setup ## Java RocketMQ 5.3.3 as peers: brokers, controllers, mqadmin, clients (ARGS=--list, or names)
	$(call run_script,tests/interop/run.py,$(ARGS))

.PHONY: chaos
chaos: setup ## process faults under load: brokers killed, paused, cut off, damaged; controllers and Kafka (ARGS=--list, or names)
	$(call run_script,tests/chaos/run.py,$(ARGS))

.PHONY: equality
equality: classes ## one question, one answer: Spark, the Spark-free reader, a running controller, a fold of the log (ARGS="--commands 2000 --sets 8"; else 200,000 and 50)
	$(call run_script,tests/equality/run.py,$(ARGS))

.PHONY: elsewhere
elsewhere: classes ## landing on a Spark cluster and on an S3 store, both real and on loopback (ARGS=--list, or names)
	$(call run_script,tests/elsewhere/run.py,$(ARGS))

.PHONY: bench
bench: classes ## the figures of this machine, each beside its floor and goal (ARGS=--json)
	$(call run_script,tests/bench/run.py,$(ARGS))

.PHONY: bench-long
bench-long: classes ## all figures, also those that take hours (10 million commands, 10 GiB stores, many kills, memory over an hour)
	$(call run_script,tests/bench/run.py,--long $(ARGS))

.PHONY: unchanged
unchanged: setup ## whether golden bytes, histories and simulated worlds are those of another revision (REV=main)
	@$(V)/python tests/golden/unchanged.py --rev $(or $(REV),main)

.PHONY: lock
lock: setup ## make the locked lists again from requirements*.in (needs the network)
	@$(V)/python -m venv .venv/lock && .venv/lock/bin/pip install --quiet --disable-pip-version-check pip-tools
	@for name in requirements-build requirements-jre requirements; do \
	  .venv/lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	    --no-emit-find-links --output-file $$name.lock $$name.in || exit 1; done

.PHONY: clean
clean: ## remove the environment, caches and the demo's data; jars stay in their cache
	@if [ -x $(V)/regent ] && [ -d .regent ]; then $(V)/regent down --dir .regent >/dev/null 2>&1 || true; fi
	rm -rf .venv .regent build *.egg-info .pytest_cache .hypothesis spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
