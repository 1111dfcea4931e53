# Two commands do everything on a fresh machine with Python >= 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
# Versions of dependencies; `make CONSTRAINTS=` takes the newest.
CONSTRAINTS ?= -c constraints.txt
# Idle threads sleep instead of spinning: on a machine that others use, spinning costs a factor of ten.
export OMP_WAIT_POLICY := PASSIVE

.PHONY: demo docs lock options wheel benchmarks test test-quick fuzz attack mutate test-sanitize test-long test-gpu test-wheel check format clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("s2s needs Python 3.11 or newer: make PYTHON=python3.12 …" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(CONSTRAINTS) -e '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/s2s-train experiment=demo
	$(BIN)/python -m s2s_synthetic_corpus 200 --split test --side en > runs/unseen.en
	$(BIN)/python -m s2s_synthetic_corpus 200 --split test --side de > runs/unseen.de
	$(BIN)/s2s-generate run=demo input=runs/unseen.en output=runs/unseen.hyp
	@echo; echo "Sentences it never saw: English, ours, reference"; echo
	@paste -d '\n' runs/unseen.en runs/unseen.hyp runs/unseen.de | awk '{ print } NR % 3 == 0 { print "" }' | head -24
	$(BIN)/s2s-score task=translation hyp=runs/unseen.hyp ref=runs/unseen.de

test: $(READY)
	$(BIN)/python -m pytest -q -n $(WORKERS)

# Under a minute: what is near the changes since main, or a fixed set of quick tests.
test-quick: $(READY)
	$(BIN)/python -m pytest -q -n $(WORKERS) $$($(BIN)/python tools/quick_tests.py)

test-long: $(READY)
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not gpu"

# Generated arguments and configurations, 10,000 of them, and thousands of whole commands on mistakes and spoilt files;
# `make test` tries some hundreds of each kind.
fuzz: $(READY)
	S2S_FUZZ=2500 $(BIN)/python -m pytest -q -n $(WORKERS) tests/s2s/compose/test_compose_fuzz.py
	S2S_FUZZ=500 $(BIN)/python -m pytest -q -n $(WORKERS) tests/s2s/cli/test_command_fuzz.py

# Kills, flipped bits, mistakes, crafted runs, lost ranks, ranks that disagree, damage to what is read again, hostile files and models, each from a
# seed; it goes on where its logs end. A case alone:
# PYTHONPATH=tests:tools python -m attack flips --seed 1 --only 17
SEED ?= 1
attack: $(READY)
	mkdir -p build
	for family in kills:200 flips:1000 mistakes:5000 crafted:200 ranks:20 disagreements:150 \
			exports:300 grammars:300 results:300 server:400 jobs:300 formats:500 published:500; do \
		PYTHONPATH=tests:tools $(BIN)/python -m attack $${family%:*} --count $${family#*:} --seed $(SEED) \
			--log build/attack-$${family%:*}-$(SEED).jsonl || exit 1; done

test-gpu: $(READY)
	$(BIN)/python -m pytest -q -m gpu

# A sample of small changes of the core, each of which a test ought to see; it goes on where its log ends. A test file is
# recorded when it is first needed: which functions each of its tests calls. One line alone:
# PYTHONPATH=tests:tools python -m mutation --only s2s/io/lock.py:40
COUNT ?= 50
mutate: $(READY)
	mkdir -p build
	PYTHONPATH=tests:tools $(BIN)/python -m mutation s2s --seed $(SEED) --count $(COUNT) --log build/mutation-$(SEED).jsonl

# The functions in C compiled with AddressSanitizer and UBSan: a read or write beyond an array ends the tests with a
# report, which pytest must not capture.
SANITIZED := $(CURDIR)/build/sanitized
test-sanitize: $(READY)
	mkdir -p $(SANITIZED)
	printf '#!/bin/sh\nexec gcc -g "$$@" -O1 -fsanitize=address,undefined -fno-sanitize-recover=all\n' > $(SANITIZED)/cc
	chmod +x $(SANITIZED)/cc
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		XDG_CACHE_HOME=$(SANITIZED) CC=$(SANITIZED)/cc S2S_KERNELS=native $(BIN)/python -m pytest -q -s -n 0 -p no:cacheprovider \
		tests/plugins/s2s_cpu tests/plugins/test_transformer_fused_decoder.py \
		tests/plugins/test_transformer_fused_encoder.py tests/plugins/test_transformer_fused_constraint.py \
		tests/plugins/test_transformer_fused_stream.py

# Every table of benchmarks/results that needs no corpus, small; `make benchmarks SIZES=full` takes hours, with all peers in
# an environment of their own. It goes on where it was stopped: what lies in build/benchmarks is not made again.
SIZES ?=
benchmarks: $(READY)
	$(if $(SIZES),benchmarks/peers.sh)
	$(if $(SIZES),build/peers,$(VENV))/bin/python benchmarks/tables.py $(SIZES)

# What depends on the installation (commands, presets, C sources, plugins), against the wheel as a user gets it: run from
# another folder, so that the sources are out of sight.
WHEEL_COMMANDS := average blocked_commands cli_train command completion first_commands generate_run import_time prepare score
WHEEL_OPERATORS := implementations library linear_levels packed
WHEEL_TESTS := $(addprefix ../tests/,test_third_party.py s2s/test_plugin.py s2s/compose/test_presets.py \
	$(WHEEL_COMMANDS:%=s2s/cli/test_%.py) $(WHEEL_OPERATORS:%=plugins/s2s_cpu/test_%.py))
test-wheel: $(READY)
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build --wheel --outdir build/wheel . > build/wheel.log 2>&1 || (cat build/wheel.log; exit 1)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target build/wheel/site build/wheel/*.whl
	cd build && PYTHONPATH=$(CURDIR)/build/wheel/site ../$(BIN)/pytest -q -n $(WORKERS) -c ../pyproject.toml --rootdir .. $(WHEEL_TESTS)

# requirements.lock, the packages of the Docker image with their hashes, for the Python of the image. Of torch, pip takes the
# build for a CPU if it knows an index that has it (PIP_EXTRA_INDEX_URL).
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet --disable-pip-version-check pip-tools
	build/lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
		-c constraints.txt --extra serve --extra documents --extra hf -o requirements.lock pyproject.toml

# The pages of docs/options, from the docstrings of all options.
options: $(READY)
	$(BIN)/python tools/option_pages.py

# The documentation as a site, in build/site; a link that leads nowhere is an error.
docs: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check $(CONSTRAINTS) -e '.[docs]'
	$(BIN)/mkdocs build --strict --quiet

# What is published: the sources, and a wheel with compiled functions. auditwheel names it after the oldest C library that
# they run on, which is that of this machine or older.
wheel: $(READY)
	rm -rf build/linux && mkdir -p build/linux dist
	$(BIN)/python -m build --sdist --outdir dist .
	$(BIN)/python -m build --wheel --outdir build/linux .
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/linux/*.whl

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache
