package topics

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// DefaultKeep is the default number of retained versions.
const DefaultKeep = 20

// DefaultGiveUp is the default time after which a run that no process has started ends as failed.
const DefaultGiveUp = time.Hour

// Values of the key `arithmetic`.
const (
	// ArithmeticStrict restricts a run to processes with the same arithmetic, so that its weights are bit-identical.
	ArithmeticStrict = "strict"
	// ArithmeticAny lets any machines work on a run. The last bits of its weights are then not reproducible.
	ArithmeticAny = "any"
)

// Job is a configuration without the brokers. A job and the spans of the examples topic make a plan.
type Job struct {
	Name         string // prefix of the topics
	Examples     ingest.Options
	Prepare      schemas.Prepare
	Stages       []schemas.Stage       // a repeated stage is listed once for each repetition; if Average is set, the stages of a member
	Untuned      bool                  // no key configures how sparse rows are prepared and fitted, except the link of columns
	Unlinked     bool                  // the link of the first stage is not configured
	Average      int                   // number of averaged members; 0 and 1: no averaging
	Threshold    schemas.ThresholdRule // probability from which the second of two classes is predicted; zero: the most probable class is
	Intercept    bool                  // the first block, or that of each member, has a constant feature
	Seed         uint64                // of all random draws
	OnBadMessage string                // schemas.QuarantineBadMessages or schemas.StopOnBadMessage
	Segment      int64                 // number of messages summed together
	Group        int                   // number of partitions of a share; 0: chosen by the amount of work
	Memory       int64                 // memory for rows, blocks and matrices in bytes; 0: half of the free memory
	Arithmetic   string                // ArithmeticStrict, or "", or ArithmeticAny
	Topics       TopicOptions          // of created topics; the zero value is DefaultTopics()
	Keep         int                   // number of retained versions; 0: DefaultKeep
	GiveUp       time.Duration         // time after which a run that no process has started ends as failed; 0: DefaultGiveUp
	Retrain      RetrainOptions        // of `run`
	Warm         string                // version to start from: its number, its run, or protocol.Latest; "": none
}

// Members returns the stages of all members, one member after the other.
func (j Job) Members() []schemas.Stage {
	if j.Average > 1 {
		return slices.Repeat(j.Stages, j.Average)
	}
	return j.Stages
}

// Remakes reports whether examples expire, and ingest can make them again from the followed topic. Which outcome a row gets depends
// on both topics, so examples with outcomes can't be made again.
func (j *Job) Remakes() bool {
	return j.Examples.FromTopic != "" && j.Examples.Outcome.Topic == "" && j.Topics.Retention.Examples > 0
}

// ShareSize returns the minimum number of partitions of a share of a topic with the given number of partitions.
func (j *Job) ShareSize(partitions int) int {
	return schemas.ShareSize(j.Group, partitions, schemas.DefaultShares)
}

// Settings returns digests of the job's settings on which the versions of a chain depend, by key in order. It omits zero
// values, files, and settings that may differ between processes.
func (j Job) Settings() (list []schemas.Setting) {
	all := map[string]string{}
	addSettings(all, "examples.", reflect.ValueOf(j.Examples))
	addSettings(all, "prepare.", reflect.ValueOf(j.Prepare))
	addSettings(all, "retrain.", reflect.ValueOf(j.Retrain))
	for key, value := range map[string]any{"stages": j.Stages, "threshold": j.Threshold, "intercept": j.Intercept, "seed": j.Seed,
		"on_bad_message": j.OnBadMessage, "segment": j.Segment, "group": j.Group, "arithmetic": j.Arithmetic, "keep": j.Keep} {
		addSetting(all, key, reflect.ValueOf(value))
	}
	maps.DeleteFunc(all, func(key, _ string) bool {
		return strings.HasPrefix(key, "examples.registry.") || slices.Contains([]string{"examples.train", "examples.test", "examples.schema",
			"examples.partitions"}, key)
	})
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, schemas.Setting{Key: key, Digest: all[key]})
	}
	return list
}

// addSettings adds the fields of a struct, with a prefix before their names.
func addSettings(all map[string]string, prefix string, of reflect.Value) {
	for i := range of.NumField() {
		field := of.Type().Field(i)
		switch {
		case !field.IsExported(), option.KeyOf(field) == "-":
		case field.Anonymous:
			addSettings(all, prefix, of.Field(i))
		default:
			addSetting(all, prefix+option.KeyOf(field), of.Field(i))
		}
	}
}

// addSetting adds a value: a struct by its fields, unless it is one value in the configuration.
func addSetting(all map[string]string, key string, of reflect.Value) {
	_, whole := of.Interface().(json.Marshaler)
	switch {
	case of.Kind() == reflect.Struct && !whole:
		addSettings(all, key+".", of)
	case !of.IsZero() && !(of.Kind() == reflect.Slice && of.Len() == 0):
		all[key] = wire.DigestJSON(of.Interface()).Short()
	}
}
