package config

import (
	"fmt"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/serve"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// The table in docs/configuration.md is generated: keys, types and defaults from the fields of Config, meanings from Keys.
//go:generate go test . -run ^TestReference$ -update

// Keys documents every key of the configuration by its full name, in which * stands for the number of a stage. Other
// packages declare the meaning of a key beside the code that the key sets; this package declares the rest.
func Keys() []schemas.Key {
	keys := []schemas.Key{
		{Name: "name", Meaning: fmt.Sprintf("prefix of the topic names: at most %d letters, digits, dots, hyphens and underscores", maxNameLength)},
		{Name: "brokers", Meaning: "`host:port` of the Kafka brokers. Empty: the embedded broker, whose log is in `data_dir`"},
		{Name: "data_dir", Meaning: "folder of the embedded broker, relative to the working directory. One process at a time can use it"},
		{Name: "fsync", Meaning: "let the embedded broker acknowledge a message only when the disk has it. Without it a loss of power takes what was acknowledged in the last seconds; " +
			"the end of a process takes nothing either way. What it costs: [operating](operating.md#the-log-of-the-embedded-broker)"},
		{Name: "listen", Meaning: "`host:port` at which other programs reach the embedded broker. Empty: it listens nowhere. It has no authentication: " +
			"the host must be a loopback address, and every user of the machine can then read and write all topics"},
		{Name: "stages.*.repeat", Meaning: "how many stages with these settings follow one another"},
		{Name: "average", Meaning: "how many models of these stages are trained side by side, each with features of its own, and averaged: a version predicts the mean of what " +
			"they predict. See [images](images.md); not for `run`"},
		{Name: "seed", Meaning: "seed of everything random, from 0 to 2^64-1"},
		{Name: "intercept", Meaning: "give the first stage an intercept; with `average`, the first of each model"},
		{Name: "on_bad_message", Meaning: fmt.Sprintf("what to do with a message that cannot be used: `%s` it and go on, or `%s` the run",
			schemas.QuarantineBadMessages, schemas.StopOnBadMessage)},
		{Name: "memory", Meaning: "memory for rows, blocks, and the matrices that stages are fitted with: a number of bytes, or a size such as 512MB or 1GiB. 0: half of the free memory. What does not fit is read or computed again in each pass, but for the matrices: a run says if they take more"},
		{Name: "segment", Meaning: "number of messages that are summed as one, regardless of the spans of a run"},
		{Name: "arithmetic", Meaning: fmt.Sprintf("`%s`: only processes with the same numeric code, processor, BLAS and vector instructions work on a run, and its weights "+
			"are the same to the bit; `%s`: machines of any kind work on it, and its weights may differ in the last bits. The version says which", pipeline.ArithmeticStrict, pipeline.ArithmeticAny)},
		{Name: "keep", Meaning: "how many versions stay on the topic `versions`: the newest. The version that subscribers get as the latest stays too, and so does one that an unfinished run needs"},
		{Name: "give_up", Meaning: "after how long a run fails that no worker has begun"},
		{Name: "warm", Meaning: "start from the weights of a version: its number, or `" + run.Latest + "`: here that is the one with the highest number, whatever is pinned or offered. None: start without weights"},
		{Name: "metrics.listen", Meaning: "address at which `work`, `solve` and `run` serve `/metrics`, `/live` and `/ready`. `null`: do not serve. " +
			fmt.Sprintf("Without this key, a process whose port is taken uses the first free one of the next %d, and logs it", ListenPorts-1)},
	}
	under := func(prefix string, more []schemas.Key) {
		for _, k := range more {
			keys = append(keys, schemas.Key{Name: join(prefix, k.Name), Meaning: k.Meaning})
		}
	}
	for _, k := range secure.Keys() {
		under("security", []schemas.Key{schemas.Key(k)})
	}
	under("examples", ingest.Keys())
	under("topics", pipeline.TopicKeys())
	under("retrain", pipeline.RetrainKeys())
	under("serve", serve.Keys())
	under("prepare", stages.PrepareKeys())
	under("stages.*.features", stages.Keys())
	under("stages.*", solve.Keys())
	return keys
}
