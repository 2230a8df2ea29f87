package archive

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/option"
)

// Options are the keys under `examples.archive` of the configuration: [Keys] says what each means. The zero value means no archive.
type Options struct {
	Files         string   `yaml:"files" path:"file"`
	Layout        string   `yaml:"layout"`
	Partition     string   `yaml:"partition"`
	Offset        string   `yaml:"offset"`
	Timestamp     string   `yaml:"timestamp"`
	Key           string   `yaml:"key"`
	Snapshot      string   `yaml:"snapshot"`
	AsOf          string   `yaml:"as_of"`
	Endpoint      string   `yaml:"endpoint"`
	Region        string   `yaml:"region"`
	AccessKeyFile string   `yaml:"access_key_file" path:"file"`
	TokenCommand  []string `yaml:"token_command"`
	OnGap         string   `yaml:"on_gap"`
	Alone         bool     `yaml:"-"` // there is no topic: the archive has all messages
}

const (
	GapStop     = "stop"     // Options.OnGap: return an error
	GapContinue = "continue" // Options.OnGap: count them as lost
)

// Defaults returns the options of an empty configuration.
func Defaults() Options { return Options{OnGap: GapStop} }

// Keys is the table of the keys under `examples.archive`.
func Keys() []option.Key {
	files := map[string]string{"archive.files": "examples.archive.files with it"}
	column := func(name, meaning string) option.Key {
		return option.Key{Name: name, Needs: files, Meaning: "column of a row with " + meaning}
	}
	var names, meanings []string
	for _, l := range layouts() {
		names, meanings = append(names, l.name), append(meanings, "`"+l.name+"` ("+l.meaning+")")
	}
	keys := []option.Key{
		{Name: "files", Meaning: "files with earlier messages of `from_topic`, such as `topics/clicks/**`; without `from_topic`, the archive " +
			"is all there is: see [archives](archives.md); none: no archive"},
		{Name: "layout", Needs: files, Rule: option.OneOf(append(names, "")...), Meaning: "where files and rows have partition and offset: " +
			strings.Join(meanings, ", ") + "; none: by the names of the files"},
		column("partition", "the partition; none: as `layout` says"),
		column("offset", "the offset; none: as `layout` says"),
		column("timestamp", "the time of the message; none: as `layout` says"),
		column("key", "the key of the message; none: as `layout` says"),
		{Name: "snapshot", Needs: files, Meaning: "ID, tag or branch of Iceberg, or version of Delta Lake, of the state of the table that is " +
			"read; none: the current one"},
		{Name: "as_of", Needs: files, Excludes: map[string]string{"archive.snapshot": "no time with examples.archive.snapshot"},
			Rule: option.Rule{Want: "a time, as 2026-11-01T00:00:00Z", Holds: func(v any) bool {
				_, err := time.Parse(time.RFC3339, v.(string))
				return v == "" || err == nil
			}}, Meaning: "time at which the state of the table was the current one; none: the current one"},
		{Name: "on_gap", Rule: option.OneOf(GapStop, GapContinue), When: "archive.files",
			Meaning: "if messages are missing: `stop` with an error, or `continue` and count them as lost"},
		{Name: "endpoint", Needs: files, Rule: option.Rule{
			Want:  "the https URL of a service without a user; http is for loopback addresses",
			Holds: func(v any) bool { return v == "" || checkURL(v.(string)) == nil }},
			Meaning: "URL of a service that is compatible with S3; none: that of Amazon (`s3://`) or Google (`gs://`)"},
		{Name: "region", Needs: files, Meaning: "region of the bucket; none: it is found"},
		{Name: "access_key_file", Needs: files, Meaning: "file with an access key of S3, or an HMAC key of Google: its ID, its " +
			"secret, and a session token if there is one, each in a line"},
		{Name: "token_command", Needs: files, Meaning: "program and arguments that print an access key as `credential_process` of " +
			"AWS does, or a token as for `security.sasl.token_command`"},
	}
	return option.Under("archive", keys)
}

// layout is where files and rows have the partition and the offset of messages. To add one, list it in layouts.
type layout struct {
	name    string
	meaning string
	// of matches the name of a file: its topic, its partition and its first offset; nil: the rows have partition and offset.
	of *regexp.Regexp
	// columns are the columns that rows may have, each by its possible names.
	columns [properties][]string
	// value is the name of the column with the value of the message; "": a row is the value.
	value string
	// live returns the live files of a table, according to its log, or an error if the table uses an unsupported feature that changes its
	// set of rows. Nil means that all listed files are live.
	live func(t *table, at snapshotName) ([]dataFile, error)
}

// The properties of a message that a row may have.
const (
	atPartition = iota
	atOffset
	atTimestamp
	atKey
	properties
)

// inColumns is the name of the layout of files whose rows have everything.
const inColumns = "columns"

func layouts() []layout {
	columns := [properties][]string{}
	for i, name := range []string{"partition", "offset", "timestamp", "key"} {
		columns[i] = []string{"$$" + name, name, "kafka_" + name}
	}
	envelope := [properties][]string{atOffset: {"offset"}, atTimestamp: {"timestamp"}, atKey: {"key"}}
	const tables = "the live rows of such a table, with such columns"
	return []layout{
		{name: "confluent", meaning: "`TOPIC+PARTITION+OFFSET.EXT`, with the first offset", // on HDFS, the last one follows it
			of: regexp.MustCompile(`^([^+]+)\+(\d+)\+(\d+)(?:\+\d+)?\.([^+]+)$`)},
		{name: "aiven", meaning: "`TOPIC-PARTITION-OFFSET`, of rows with `key`, `value`, `offset` and `timestamp`",
			columns: envelope, value: "value", of: regexp.MustCompile(`^(.+)-(\d+)-(\d+)(\.[^-]+)?$`)},
		{name: inColumns, meaning: "rows with the columns `partition`, `offset`, `timestamp` and `key`, or the same with `$$` before them",
			columns: columns},
		{name: "iceberg", meaning: tables, columns: columns, live: iceberg},
		{name: "delta", meaning: tables, columns: columns, live: delta},
	}
}

// place is the topic, the partition and the first offset of a file.
type place struct {
	topic     string
	partition int
	first     int64
}

// placeOf returns the place in the name of a file. besides means that the file has the keys or headers of rows in another file.
func (l *layout) placeOf(file string) (p place, besides, ok bool) {
	parts := l.of.FindStringSubmatch(path.Base(file))
	if parts == nil {
		return p, false, false
	}
	partition, err := strconv.Atoi(parts[2])
	first, err2 := strconv.ParseInt(parts[3], 10, 64)
	besides = strings.HasPrefix(parts[4], "keys.") || strings.HasPrefix(parts[4], "headers.")
	return place{parts[1], partition, first}, besides, err == nil && err2 == nil && partition < maxPartitions
}
