# Everything that a newcomer types. Each target says what it does, installs what it may, and fails with a sentence otherwise.

# The system BLAS is opened at run time: one way to build, with or without a C compiler.
export CGO_ENABLED ?= 0
# As wheels and releases are compiled, so that they use what make build or make demo has compiled.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

KAFKA := scripts/kafka.sh
KAFKA_FLAGS := --dir .demo/kafka

.PHONY: help demo demo-images demo-table stream loop test test-units test-race test-flows nightly check build race fuzz chaos bench paper wheel release kafka-up kafka-down clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# fetched NAME: a data set and a BLAS come while the program is compiled. Exit code 3: the set can't be fetched.
fetched = { scripts/blas.sh && scripts/data.sh $(1) .demo/$(1); } & scripts/build.sh && wait $$!
# learnt NAME ROWS: a model of examples/NAME.yaml, and how to predict the rows of a file.
learnt = bin/stagewise train -c examples/$(1).yaml --report .demo/$(1).json --model .demo/$(1).model $(ARGS) && \
	echo "demo: the report is .demo/$(1).json; to predict: bin/stagewise predict --model .demo/$(1).model -i $(2)"

demo: ## MNIST through Kafka topics to a trained model; ARGS="--set seed=2" goes to stagewise train
	@$(call fetched,mnist); case $$? in \
		0) $(call learnt,mnist,.demo/mnist/t10k-images-idx3-ubyte) ;; \
		3) echo "demo: MNIST can't be fetched: these are the 1,797 small digits of this repository" && \
			$(call learnt,digits,examples/digits/digits-test.csv.gz) ;; \
		*) echo "demo: a line above says what is missing" >&2; exit 1 ;; esac

demo-images: ## MNIST by patches of its images; DATA=fashion or DATA=cifar10 for others
	@$(call fetched,$(or $(DATA),mnist)) && $(call learnt,$(or $(DATA),mnist)-patches,$$(ls .demo/$(or $(DATA),mnist)/t10k-images* .demo/$(or $(DATA),mnist)/test-images* 2>/dev/null))

demo-table: ## a table with words and prices: a model in seconds, the importance of its columns, and pages of both
	@$(call fetched,diamonds) && $(call learnt,diamonds,.demo/diamonds/diamonds-test.csv)
	bin/stagewise explain --model .demo/diamonds.model -i .demo/diamonds/diamonds-test.csv --curves 1 --top 9 --html .demo/diamonds.html
	@bin/stagewise runs show -c examples/diamonds.yaml "$$(sed -n 's/^  "run": "\([0-9a-f]*\)",$$/\1/p' .demo/diamonds.json)" --html .demo/diamonds-run.html >/dev/null
	@echo "demo: the importance of columns is in .demo/diamonds.html, the run with its curves in .demo/diamonds-run.html"

stream: ## MNIST as a stream that changes: a version every 1024 images, an alarm, and the recovery
	@$(call fetched,mnist)
	@cd .demo/mnist && { head -c 30008 train-labels-idx1-ubyte; \
		tail -c 30000 train-labels-idx1-ubyte | LC_ALL=C tr '\000-\011' '\001-\011\000'; } >drifting-labels-idx1-ubyte
	@rm -rf .demo/stream
	bin/stagewise run -c examples/stream.yaml --until end --report .demo/stream.json $(ARGS)

loop: ## a model that learns from what it answered: the error of what was served falls; ARGS=--kafka for real Kafka
	@scripts/loop.sh $(ARGS)

# Brokers of tests run for minutes: they use half the processor time if code is compiled only once.
test: export JAVA_TOOL_OPTIONS := -XX:TieredStopAtLevel=1
test: ## before a merge: format, vet, lint, unit, race, simulation, what Python reads, real Kafka, faults, a table, the closed loop, packages
	@scripts/blas.sh # now: versions that tests make before it is there have another arithmetic than those after it
	@scripts/test.sh format vet
	@$(MAKE) --no-print-directory -j 3 test-units test-race test-flows

# What make test does at the same time: some steps wait for brokers and browsers, and others compute. The steps that need Python's packages follow
# one another, since the first of them installs what the next uses.
test-units: ; @scripts/test.sh lint unit simulate
test-race: ; @scripts/test.sh race chaos table loop package
test-flows: ; @scripts/test.sh page kafka python

nightly: ## what is too long for test: MNIST's accuracy, arm64, 50,000 simulated schedules, clusters, 50 runs and 50 chains under faults, fuzzing
	@SCHEDULES=50000 RUNS=50 FUZZTIME=2m scripts/test.sh mnist arm64 simulate cluster chaos fuzz

check: ## the everyday part of test, 90 s after a first build: format, vet, lint, and the tests that are not long
	@scripts/test.sh format vet lint quick

build: ## bin/stagewise; the first time it downloads and compiles what it imports, a minute or two on two cores
	@scripts/build.sh

race: ## the tests of what runs concurrently, under the race detector
	@scripts/test.sh race

fuzz: ## every fuzz target for 20 s; FUZZTIME=5m for longer
	@scripts/test.sh fuzz

chaos: ## processes and brokers die, hang and come back while runs go on; ARGS="--runs 100 --seed 7"
	@scripts/blas.sh
	@scripts/build.sh
	@go run ./chaos $(ARGS)

bench: ## stagewise beside its peers, half an hour; ARGS="--only floors" for a part of it
	@scripts/bench.sh $(ARGS)

paper: ## the paper's experiments beside its figures; ARGS="--news20 FOLDER --rcv1 FILE" for texts
	@PROGRAM=bench/paper.py scripts/bench.sh $(ARGS)

wheel: ## a Python wheel that carries the program, for this machine, in dist/
	@scripts/release.sh --wheels

release: ## archives and Python wheels for Linux and macOS in dist/, with checksums and an SBOM
	@scripts/release.sh

kafka-up: ## real Kafka on localhost:9092, without Docker
	@$(KAFKA) start $(KAFKA_FLAGS) --port 9092

kafka-down: ## stops it; its topics stay for the next kafka-up
	@$(KAFKA) stop $(KAFKA_FLAGS)

clean: ## removes what was built, fetched and trained here
	@$(KAFKA) wipe $(KAFKA_FLAGS) 2>/dev/null
	rm -rf bin dist .demo
