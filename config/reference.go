package config

import (
	"fmt"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/serve"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// The table in docs/configuration.md and docs/configuration.schema.json are generated: keys, types and defaults from the fields of Config,
// meanings from Keys.
//go:generate go test . -run ^Test(Reference|Schema)$ -update

// Keys documents every key of the configuration by its full name, in which * stands for the number of a stage. Other
// packages declare the meaning of a key beside the code that the key sets; this package declares the rest.
func Keys() []option.Key {
	keys := ownKeys()
	under := func(prefix string, more []option.Key) { keys = append(keys, option.Under(prefix, more)...) }
	under("security", secure.Keys())
	under("examples", ingest.Keys())
	under("topics", topics.TopicKeys())
	under("retrain", topics.RetrainKeys())
	under("serve", serve.Keys())
	under("prepare", stages.PrepareKeys())
	under("prepare", layout.HashKeys())
	under("stages.*.features", stages.Keys())
	under("stages.*", solve.Keys())
	return keys
}

// ownKeys is the table of the keys that this package declares.
func ownKeys() []option.Key {
	return []option.Key{
		{Name: "name", Meaning: fmt.Sprintf("prefix of the topic names: at most %d letters, digits, dots, hyphens and underscores",
			maxNameLength)},
		{Name: "brokers", Meaning: "`host:port` of the Kafka brokers. Empty: the embedded broker, with its log in `data_dir`"},
		{Name: "data_dir", Rule: option.Rule{Want: "the path of a folder", Holds: func(v any) bool { return v != "" }},
			Meaning: "folder of the embedded broker, relative to the working directory. Only one process at a time can " +
				"use it"},
		{Name: "fsync", Excludes: map[string]string{"brokers": "no value, because brokers is set: Kafka brokers have their own setting"},
			Meaning: "the embedded broker acknowledges a message only once it is on disk: see " +
				"[operating](operating.md#the-log-of-the-embedded-broker)"},
		{Name: "listen", Meaning: "loopback `host:port` on which other programs reach the embedded broker. Without authentication, every " +
			"user of the machine can read and write all topics. Empty: none"},
		{Name: "stages.*.repeat", Meaning: "number of consecutive stages with these settings"},
		{Name: "average", Rule: option.Whole(1, maxAverage),
			Meaning: "number of models with their own random features, whose mean prediction a version predicts. See " +
				"[images](images.md); not for `run`"},
		{Name: "threshold", Meaning: "with two classes, the minimum probability for predicting the second: a number, `best_f1`, or costs " +
			"such as `{cost: {fp: 1, fn: 20}}`: see [a threshold](serving.md#a-threshold)"},
		{Name: "seed", Meaning: "random seed, from 0 to 2^64-1"},
		{Name: "intercept", Meaning: "give the first stage an intercept; with `average`, the first stage of each model"},
		{Name: "on_bad_message", Rule: option.OneOf(schemas.QuarantineBadMessages, schemas.StopOnBadMessage),
			Meaning: fmt.Sprintf("what to do with a message that cannot be used: `%s` it and continue, or `%s` "+
				"the run",
				schemas.QuarantineBadMessages, schemas.StopOnBadMessage)},
		{Name: "memory", Meaning: "memory for rows, blocks and matrices, such as 512MB or 1GiB. 0: half of the free memory, within the " +
			"limit of a container. What does not fit is read or computed again in each pass"},
		{Name: "segment", Rule: option.Whole(1, 0),
			Meaning: "number of messages summed as one, regardless of the spans of a run"},
		{Name: "group", Rule: option.Whole(0, 0),
			Meaning: fmt.Sprintf("number of partitions of a share, which one worker owns: see [scaling](scaling.md). 0: there are at most %d "+
				"shares, and a small run has one. Another number changes the last bits of the weights", schemas.DefaultShares)},
		{Name: "arithmetic", Rule: option.OneOf(topics.ArithmeticStrict, topics.ArithmeticAny),
			Meaning: fmt.Sprintf("`%s`: only processes with the same numeric code, processor, BLAS and vector "+
				"instructions work on a run, and its weights are bit-identical; `%s`: any machine, and weights may differ in the last bits",
				topics.ArithmeticStrict, topics.ArithmeticAny)},
		{Name: "keep", Rule: option.Whole(1, maxKeep),
			Meaning: "number of newest versions to keep on the topic `versions`, besides the one that subscribers get and " +
				"those that an unfinished run needs"},
		{Name: "give_up", Rule: option.Range(float64(time.Minute), float64(maxGiveUp), "a time from 1m to 8760h"),
			Meaning: "fail a run that no worker starts within this time"},
		{Name: "warm", Rule: option.Rule{Want: protocol.Latest + ", or the number of a version, from 1", Holds: func(v any) bool {
			n, err := strconv.ParseUint(v.(string), 10, 31)
			return v == "" || v == protocol.Latest || err == nil && n > 0
		}}, Meaning: "start from the weights of a version: its number, or `" + protocol.Latest +
			"`: the highest number, even if it is not offered"},
		{Name: "metrics.listen", Rule: option.Rule{Want: "host:port to listen on, or null to serve no metrics", Holds: func(v any) bool {
			return v == "" || isListenAddress(v.(string))
		}}, Meaning: fmt.Sprintf("address of `/metrics`, `/live` and `/ready` of services; of `serve` only if it is "+
			"not the default. `null`: none. If the port is in use, a process takes the first free one of the next %d, and logs it",
			ListenPorts-1)},
		{Name: "score.contributions", Rule: option.Whole(0, 0), Meaning: "`score` also writes the contributions of so many columns, those " +
			"that add the most to each score: see [contributions](your-own-data.md#what-predictions-depend-on). 0: none"},
		{Name: "log.values", Meaning: "show values of rows in the reasons why messages can't be used, in logs, on the screen and on the " +
			"page; otherwise the place and the column"},
	}
}
