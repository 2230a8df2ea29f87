package config

import (
	"fmt"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/serve"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// The table in docs/configuration.md is generated: keys, types and defaults from the fields of Config, meanings from Keys.
//go:generate go test . -run ^TestReference$ -update

// Keys documents every key of the configuration by its full name, in which * stands for the number of a stage. Other
// packages declare the meaning of a key beside the code that the key sets; this package declares the rest.
func Keys() []option.Key {
	keys := []option.Key{
		{Name: "name", Meaning: fmt.Sprintf("prefix of the topic names: at most %d letters, digits, dots, hyphens and underscores",
			maxNameLength)},
		{Name: "brokers", Meaning: "`host:port` of the Kafka brokers. Empty: the embedded broker, with its log in `data_dir`"},
		{Name: "data_dir", Meaning: "folder of the embedded broker, relative to the working directory. Only one process at a time can " +
			"use it"},
		{Name: "fsync", Meaning: "the embedded broker acknowledges a message only once it is on disk. Otherwise a power failure loses " +
			"the messages acknowledged in the last seconds; the end of a process loses nothing either way. Cost: " +
			"[operating](operating.md#the-log-of-the-embedded-broker)"},
		{Name: "listen", Meaning: "`host:port` on which other programs reach the embedded broker. Empty: it does not listen. It has " +
			"no authentication: the host must be a loopback address, and every user of the machine can read and write all topics"},
		{Name: "stages.*.repeat", Meaning: "number of consecutive stages with these settings"},
		{Name: "average", Meaning: "number of models to average. Each has these stages with its own random features; a version " +
			"predicts the mean of their predictions. See [images](images.md); not for `run`"},
		{Name: "threshold", Meaning: "with two classes, the minimum probability of the second class for a row to be assigned it: a " +
			"number between 0 and 1; `best_f1`: the threshold with the highest F1 of the second class; or `{cost: {fp: 1, fn: 20}}`: " +
			"the threshold with the lowest cost of false positives (`fp`) and false negatives (`fn`). The last two are chosen on the " +
			"holdout rows: without the key `examples.holdout`, a tenth of the training rows. The threshold is part of the version: " +
			"see [a threshold](serving.md#a-threshold)"},
		{Name: "seed", Meaning: "random seed, from 0 to 2^64-1"},
		{Name: "intercept", Meaning: "give the first stage an intercept; with `average`, the first stage of each model"},
		{Name: "on_bad_message", Meaning: fmt.Sprintf("what to do with a message that cannot be used: `%s` it and continue, or `%s` "+
			"the run",
			schemas.QuarantineBadMessages, schemas.StopOnBadMessage)},
		{Name: "memory", Meaning: "memory for rows, blocks, and the matrices that stages are fitted with: a number of bytes, or a " +
			"size such as 512MB or 1GiB. 0: half of the free memory of the machine, within the limit of a container (cgroup). " +
			"Rows and blocks that do not fit are read or computed again in each pass; a run reports if the matrices need more"},
		{Name: "segment", Meaning: "number of messages summed as one, regardless of the spans of a run"},
		{Name: "group", Meaning: "number of partitions whose sums are added first. A worker that owns a whole group sends one record " +
			"of its sums: with more than 32 partitions per worker, the value partitions ÷ workers sends the fewest bytes. A different " +
			"group size changes the last bits of the weights"},
		{Name: "arithmetic", Meaning: fmt.Sprintf("`%s`: only processes with the same numeric code, processor, BLAS and vector "+
			"instructions work on a run, and its weights are bit-identical; `%s`: any machine works on it, and its weights "+
			"may differ in the last bits. The version records which", planning.ArithmeticStrict, planning.ArithmeticAny)},
		{Name: "keep", Meaning: "number of newest versions to keep on the topic `versions`. The version that subscribers get as " +
			"latest is also kept, and any version that an unfinished run needs"},
		{Name: "give_up", Meaning: "fail a run that no worker starts within this time"},
		{Name: "warm", Meaning: "start from the weights of a version: its number, or `" + protocol.Latest +
			"`: the version with the highest number, even if it is not offered or another one is pinned. None: start without weights"},
		{Name: "metrics.listen", Meaning: "address on which `ingest`, `work`, `solve`, `run` and `score` serve `/metrics`, `/live` " +
			"and `/ready`; an address other than the default is also one of `serve`, without TLS and token. `null`: do not serve. " +
			fmt.Sprintf("If the port is in use, a process takes the first free one of the next %d, and logs it", ListenPorts-1)},
		{Name: "log.values", Meaning: "whether logs, the screen and the page show values of rows in the reasons why messages can't be used. " +
			"Otherwise they show the place, the column and the reason"},
	}
	under := func(prefix string, more []option.Key) { keys = append(keys, option.Under(prefix, more)...) }
	for _, k := range secure.Keys() {
		under("security", []option.Key{option.Key(k)})
	}
	under("examples", ingest.Keys())
	under("topics", topics.TopicKeys())
	under("retrain", topics.RetrainKeys())
	under("serve", serve.Keys())
	under("prepare", prepare.Keys())
	under("prepare", layout.HashKeys())
	under("stages.*.features", stages.Keys())
	under("stages.*", solve.Keys())
	return keys
}
