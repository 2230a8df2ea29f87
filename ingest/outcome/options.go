package outcome

import (
	"math"
	"reflect"
	"time"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/typed"
	"github.com/stagewise/stagewise/internal/option"
)

// Options are the keys under `examples.outcome` of the configuration, for labels that arrive on a separate topic: [Keys] says what each
// means. The zero value has none; start from Defaults.
type Options struct {
	Topic     string        `yaml:"topic"`
	Key       string        `yaml:"key"`
	Label     string        `yaml:"label"`
	Within    time.Duration `yaml:"within"`
	Early     time.Duration `yaml:"early"`
	Grace     time.Duration `yaml:"grace"`
	KeyFormat string        `yaml:"key_format"`
	Unmatched float64       `yaml:"unmatched"`
	Idle      time.Duration `yaml:"idle"`
	Absent    []string      `yaml:"absent"`
	Memory    option.Bytes  `yaml:"memory"`
	Format    string        `yaml:"format"`

	format.Settings ` yaml:",inline"`
	Registry        typed.Registry `yaml:"registry"`

	Folder string `yaml:"-"` // for data that does not fit into memory; "": memory is unlimited
}

// AbsentSkip is the Options.Absent that skips rows without an outcome.
const AbsentSkip = "skip"

const (
	defaultEarly  = time.Minute
	defaultGrace  = 5 * time.Minute
	defaultIdle   = time.Hour
	defaultAlone  = 0.5
	defaultMemory = 256 << 20
	minMemory     = 1 << 20
	maxWithin     = 10 * 365 * 24 * time.Hour
)

// Defaults returns the options of an empty configuration.
func Defaults() Options {
	return Options{Early: defaultEarly, Grace: defaultGrace, KeyFormat: KeyAuto, Unmatched: defaultAlone,
		Idle: defaultIdle, Memory: defaultMemory}
}

// IsZero reports whether no key is set.
func (o Options) IsZero() bool {
	o.Folder = ""
	if len(o.Absent) == 0 {
		o.Absent = nil
	}
	return reflect.DeepEqual(o, Options{}) || reflect.DeepEqual(o, Defaults())
}

// Waiting returns the maximum number of waiting rows and their size, at the given number of rows per second and message
// size.
func (o Options) Waiting(rate, size int64) (rows, bytes int64) {
	rows = int64(float64(rate) * (o.Within + o.Grace).Seconds())
	return rows, rows * (size + overhead)
}

// Keys is the table of the keys under `examples.outcome` of the configuration, with their names under examples.
func Keys() []option.Key {
	const rows = "examples.from_topic too: the topic of the rows that wait for outcomes"
	const topic = "outcome.topic"
	time := option.Range(0, float64(maxWithin), "a time of at least 0, and at most ten years")
	keys := option.Under("outcome", []option.Key{
		{Name: "topic", Needs: map[string]string{"from_topic": rows},
			Meaning: "topic of labels that arrive later, for the rows of `from_topic`: see [later labels](later-labels.md); " +
				"none: rows include their labels"},
		{Name: "key", Meaning: "path of the join key in an outcome, as `key` in a row; none: the message key"},
		{Name: "label", Meaning: "path of the label, or with `labels: several` of the labels, in an outcome. Not with `label_columns` " +
			"or `targets`, which are then paths in an outcome"},
		{Name: "within", When: topic, Rule: time, Meaning: "maximum time from a row to its outcome, by message timestamps, such as `24h`"},
		{Name: "early", When: topic, Rule: time,
			Meaning: "maximum time by which an outcome may precede its row, by message timestamps: clocks differ, and " +
				"partitions are read at different speeds. Use `0s` if successive rows share a key"},
		{Name: "grace", When: topic, Rule: time,
			Meaning: "how far messages may be out of order: a row is decided when the outcomes are later than its time plus " +
				"`outcome.within` and this"},
		{Name: "key_format", When: topic, Rule: option.OneOf(KeyAuto, KeyText, KeyJSON, KeyLong, KeyAvro),
			Meaning: "encoding of the message keys of the outcomes, without `outcome.key`: `text`, `json`, `long`, " +
				"`avro`, or `auto`, as those of the rows: see [later labels](later-labels.md)"},
		{Name: "unmatched", When: topic, Rule: option.Range(0, 1, "a fraction from 0 to 1"),
			Meaning: "fraction of the outcomes without a row beyond which no version is offered; 1: any may be without"},
		{Name: "idle", When: topic, Rule: time,
			Meaning: "maximum lag of the newest message of a partition of the topic behind its other partitions. Beyond " +
				"it, the partition no longer holds back rows without an outcome; at most `outcome.within`"},
		{Name: "absent", Meaning: "label of rows without an outcome, such as `none`: with `labels: several` a list, such as `[]`, with " +
			"`targets` one number for all, or a list; `skip`: these rows are not examples"},
		{Name: "memory", When: topic, Rule: option.Range(minMemory, math.MaxInt64, "at least 1 MiB"),
			Meaning: "memory for waiting rows and outcomes in a process; the rest is stored in `data_dir`, and read " +
				"from the topics again if it is lost"},
		{Name: "format", Meaning: "format of the outcomes, as `format`; none: the format of the rows, with their `schema` and " +
			"`registry` unless the outcomes have their own"},
		{Name: "rows", Meaning: "path of the outcomes in a message, as `rows`"},
		{Name: "schema", Meaning: "schema file for the outcomes, as `schema`"},
		{Name: "message", Meaning: "full name of the message in `outcome.schema`, as `message`"},
	})
	return append(keys, typed.RegistryKeys("outcome.registry", "URL of the schema registry of the outcomes, as `registry.url`",
		"outcome.topic", "examples.outcome.topic too: it describes outcomes")...)
}
