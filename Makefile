# The commands of this project; each installs what is missing (Debian) before it builds. CMake does the work.
BUILD  := build/release
PREFIX ?= /usr/local
# Tests at a time. Each may use all cores, so more than this gains nothing.
JOBS   ?= $(shell nproc)

.DEFAULT_GOAL := build
.PHONY: help setup configure build demo test test-page test-web test-python verify-python verify bench docs web wheel format install clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

# The program is whole without Node.js, but for its pages, and without the libraries of slides and scans.
setup:
	@tools/setup.sh
	@tools/setup.sh slide || echo "qkv: slides and scans are built without some of their formats" >&2
	@tools/setup.sh page || echo "qkv: no Node.js; the explorer's page and attend's are left out" >&2

configure: setup
	@cmake --preset release --log-level=WARNING > /dev/null

build: configure  ## the program, at build/release/qkv
	@cmake --build --preset release --target qkv_product

demo: build  ## reads 20 hand-drawn digits
	@python3 tools/demo.py $(BUILD)/qkv examples/digits

test: configure  ## all tests
	@cmake --build --preset release
	@python3 tools/run_tests.py $(BUILD) -j $(JOBS)

test-page: build  ## the explorer's page in Chromium (needs Node.js 18.19 and npm)
	@tools/page_tests.sh

test-web: build  ## the explorer without a server, in node and Chromium (needs Node.js with npm; builds `make web`)
	@tools/web_tests.sh

test-python:  ## Python's package, from its wheel, in a clean environment (needs PyPI; builds `make wheel`)
	@tools/python_tests.sh

verify-python:  ## the same beside torch, timm and transformers (installs them on the first run)
	@tools/setup.sh verify
	@tools/python_tests.sh --originals

verify: build  ## compares with timm, transformers and vit-pytorch (installs them on the first run); with QKV_DATA images too
	@tools/setup.sh verify
	@QKV_PYTHON=$$(tools/reference_env.sh) && "$$QKV_PYTHON" tools/verify.py --qkv $(BUILD)/qkv && \
	  "$$QKV_PYTHON" tools/verify_settings.py --qkv $(BUILD)/qkv && \
	  "$$QKV_PYTHON" tools/verify_registry.py --qkv $(BUILD)/qkv && \
	  "$$QKV_PYTHON" tools/tokenizer_settings.py --qkv $(BUILD)/qkv
	@[ -z "$$QKV_DATA" ] || { QKV_PYTHON=$$(tools/reference_env.sh) && \
	  "$$QKV_PYTHON" tools/verify_images.py --qkv $(BUILD)/qkv && \
	  "$$QKV_PYTHON" tools/verify_weights.py --qkv $(BUILD)/qkv; }

bench: build  ## speed beside PyTorch, ONNX Runtime and OpenVINO (installs them on the first run); with QKV_DATA photos too
	@tools/setup.sh bench verify
	@cmake --preset bench --log-level=WARNING > /dev/null
	@cmake --build --preset bench --target qkv_micro_bench qkv_attention_timer
	@QKV_PYTHON=$$(tools/reference_env.sh) && \
	  "$$QKV_PYTHON" bench/roofline.py && \
	  { ! QKV_ISA=avx2 $(BUILD)/qkv info > /dev/null 2>&1 || QKV_ISA=avx2 "$$QKV_PYTHON" bench/roofline.py; } && \
	  "$$QKV_PYTHON" bench/peers.py --qkv $(BUILD)/qkv && \
	  "$$QKV_PYTHON" bench/attention.py && \
	  "$$QKV_PYTHON" bench/scaling.py --qkv $(BUILD)/qkv && \
	  { [ -z "$$QKV_DATA" ] || "$$QKV_PYTHON" bench/folder.py --qkv $(BUILD)/qkv; }

docs:  ## the site, at build/docs/html/index.html: guides, references, executed notebooks (needs PyPI; builds `make wheel`)
	@tools/setup.sh docs
	@tools/docs.sh

web:  ## the explorer as static files, without a server, at build/web (docs/web.md)
	@tools/web.sh

wheel:  ## Python's package, at dist/ (python/README.md; needs PyPI)
	@tools/wheel.sh

format:  ## clang-format on all sources
	@tools/setup.sh format
	@git ls-files '*.c' '*.cc' '*.h' | xargs clang-format -i

install: build  ## to PREFIX, /usr/local unless given
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:  ## removes build/
	@rm -rf build
