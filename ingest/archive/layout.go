package archive

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

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
	// live returns the live files of a table. Nil means that all listed files are live.
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

func names() (all []string) {
	for _, l := range layouts() {
		all = append(all, l.name)
	}
	return all
}

func layoutMeanings() string {
	var all []string
	for _, l := range layouts() {
		all = append(all, "`"+l.name+"` ("+l.meaning+")")
	}
	return strings.Join(all, ", ")
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

// columnsOf returns the names of the columns of rows. Names in the options take precedence.
func (l *layout) columnsOf(o Options) [properties][]string {
	columns := l.columns
	for i, name := range []string{o.Partition, o.Offset, o.Timestamp, o.Key} {
		if name != "" {
			columns[i] = []string{name}
		}
	}
	return columns
}
