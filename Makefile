# Everything that a newcomer types. Each target says what it does, installs what it may, and fails with a sentence otherwise.

# The system BLAS is opened at run time: one way to build, with or without a C compiler.
export CGO_ENABLED ?= 0
# As wheels and releases are compiled, so that they use what make build or make demo has compiled.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

KAFKA := scripts/kafka.sh
KAFKA_FLAGS := --dir .demo/kafka

.PHONY: help demo demo-images demo-table stream loop test nightly check build race fuzz chaos bench paper wheel release kafka-up kafka-down clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## MNIST through Kafka topics to a trained model; ARGS="--set seed=2" goes to stagewise train
	@scripts/demo.sh mnist $(ARGS)

demo-images: ## MNIST by patches of its images; DATA=fashion or DATA=cifar10 for others
	@scripts/demo.sh images $(DATA) $(ARGS)

demo-table: ## a table with words and prices: a model in seconds, the importance of its columns, and pages of both
	@scripts/demo.sh table $(ARGS)

stream: ## MNIST as a stream that changes: a version every 1024 images, an alarm, and the recovery
	@scripts/demo.sh stream $(ARGS)

loop: ## a model that learns from what it answered: the error of what was served falls; ARGS=--kafka for real Kafka
	@scripts/loop.sh $(ARGS)

test: ## before a merge: format, vet, lint, unit, race, simulation, what Python reads, real Kafka, faults, a table, the closed loop, packages
	@scripts/test.sh format vet
	@scripts/test.sh lint unit -- race python -- simulate page table loop package chaos kafka

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
	@scripts/wheel.sh

release: ## archives and Python wheels for Linux and macOS in dist/, with checksums and an SBOM
	@scripts/release.sh

kafka-up: ## real Kafka on localhost:9092, without Docker
	@$(KAFKA) start $(KAFKA_FLAGS) --port 9092

kafka-down: ## stops it; its topics stay for the next kafka-up
	@$(KAFKA) stop $(KAFKA_FLAGS)

clean: ## removes what was built, fetched and trained here
	@$(KAFKA) wipe $(KAFKA_FLAGS) 2>/dev/null
	rm -rf bin dist .demo
