# Four commands, each from plain Python 3.11+: demo, test, check, bench. Each makes .venv itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KAFKA := .cache/kafka
OTELCOL := .cache/otelcol/otelcol
GO := $(shell command -v go 2>/dev/null)
UV := $(shell command -v uv 2>/dev/null)

.PHONY: demo test check bench lint types layers services embedding lock sbom licences clean

demo: $(STAMP)
	$(BIN)/rag-monitor demo

# Two minutes on two cores; what is long or needs a server is for `check`, and the last line says so.
test: $(STAMP)
	$(BIN)/pytest -n auto --dist loadfile -q -m 'not long and not kafka and not postgres and not pgbouncer and not alertmanager and not faketime and not wheel'

check: lint types layers
	$(BIN)/pytest -W error -n auto --dist loadfile
	$(BIN)/pytest -W error -m wheel tests/packaging

# What tests start beside the monitor; without it they skip and say so: the Kafka broker, through Maven, and where Go is
# the OpenTelemetry Collector, of the modules that go.sum pins.
services: $(KAFKA)/.fetched $(if $(GO),$(OTELCOL))

$(OTELCOL): $(wildcard tests/services/otelcol/*)
	cd tests/services/otelcol && $(GO) build -mod=readonly -trimpath -ldflags='-s -w' -o $(CURDIR)/$@ .

$(KAFKA)/.fetched: tests/services/kafka/pom.xml
	rm -rf $(KAFKA)
	mvn --batch-mode --no-transfer-progress --quiet --file $< -Dkafka.home=$(CURDIR)/$(KAFKA) package
	@touch $@

# The extra `embedding`, whose test skips without it: 90 MB, so nobody has to.
embedding: $(STAMP)
ifneq ($(UV),)
	$(UV) pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[embedding]'
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedding]'
endif

bench: $(STAMP)
	@for script in bench/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

# What a release is installed from, and what is in it: into build/, each with the extras that a server needs. The lock has a
# hash for each file of each platform, and names no address.
TOOLS := .cache/release
SHIPPED := .cache/shipped

lock: build/requirements.lock

build/requirements.lock: pyproject.toml constraints.txt $(TOOLS)/.installed
	@mkdir -p build
	$(TOOLS)/bin/pip-compile --quiet --generate-hashes --strip-extras --no-header --no-emit-index-url --no-emit-find-links \
	  --no-emit-trusted-host --no-emit-options --allow-unsafe --extra grafana --extra kafka --extra postgres -c constraints.txt -o $@ pyproject.toml

sbom: $(SHIPPED)/.installed $(TOOLS)/.installed
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON -o build/sbom.cdx.json $(SHIPPED)

licences: $(SHIPPED)/.installed $(TOOLS)/.installed
	$(TOOLS)/bin/pip-licenses --python $(SHIPPED)/bin/python --from=mixed --with-urls --format=csv --output-file=build/licences.csv

$(TOOLS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --group release
	@touch $@

$(SHIPPED)/.installed: build/requirements.lock
	$(PYTHON) -m venv --clear --without-pip $(SHIPPED)
	$(TOOLS)/bin/python -m pip --python $(SHIPPED)/bin/python install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

# constraints.txt pins every version, so two machines install the same thing; it names no address.
$(STAMP): pyproject.toml constraints.txt
ifneq ($(UV),)
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	$(UV) pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[grafana,postgres]' --group dev
else
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[grafana,postgres]' --group dev
endif
	@touch $@

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache
