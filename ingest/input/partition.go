package input

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas/value"
)

// Partition is a partition value from a directory name, such as kind=iris, as in Hive and Spark.
type Partition struct {
	Column, Text string
	Null         bool
	IsWhole      bool // all values of the column are integers, and so is this one
	Whole        int64
	IsLayout     bool // the column only says when and where its writer stored the rows
}

// NullError adds to the error about a null that it is from a directory name, and how to leave its rows out.
func (p Partition) NullError(err error) error {
	return fmt.Errorf("%w. The column %s is null in the folder %[2]s=%[3]s: start the folder's name with a dot to leave its rows out",
		err, p.Column,
		p.Text)
}

// noPartition is the partition value for null.
const noPartition = "__HIVE_DEFAULT_PARTITION__"

// valuesInPaths returns the partition values of the tables in a directory.
func valuesInPaths(folder string, tables []string, kindOf func(name string) Kind) (map[string][]Partition, error) {
	values := map[string][]Partition{}
	words, features := map[string]bool{}, map[string]bool{} // columns with a value that is not an integer, or not of a layout
	for _, table := range tables {
		values[table] = nil
		relative, err := filepath.Rel(folder, filepath.Dir(table))
		if err != nil {
			return nil, err
		}
		for part := range strings.SplitSeq(filepath.ToSlash(relative), "/") {
			column, text, partitioned := strings.Cut(part, "=")
			if !partitioned {
				continue
			}
			if plain, err := url.PathUnescape(text); err == nil { // special characters in directory names are escaped
				text = plain
			}
			v := Partition{Column: column, Text: text, Null: text == noPartition}
			if v.Whole, err = strconv.ParseInt(text, 10, 64); !v.Null && (err != nil || strconv.FormatInt(v.Whole, 10) != text) {
				words[column] = true
			}
			values[table] = append(values[table], v)
		}
		storage := storageOf(table, values[table])
		for _, v := range values[table] {
			features[v.Column] = features[v.Column] || !v.Null && !storage.has(v)
		}
	}
	for _, table := range tables {
		for i := range values[table] {
			v := &values[table][i]
			v.IsWhole, v.IsLayout = !words[v.Column], !features[v.Column]
			if !v.IsLayout && !kindOf(table).HasPath {
				return nil, WholeFile(folder, fmt.Errorf("folders such as %s=%s hold the values of the column %s, which only "+
					"Parquet and Arrow support: write the table without partitions", v.Column, v.Text, value.Quote(v.Column)))
			}
		}
	}
	return values, nil
}

var (
	// connectFile matches the files of Kafka Connect's sinks, such as orders+0+0000000042.json: topic, partition and offset.
	connectFile = regexp.MustCompile(`^.+\+[0-9]+\+[0-9]+(\.|$)`)

	kafkaNames = []string{"topic", "partition", "offset", "kafka_topic", "kafka_partition", "kafka_offset"}
	clockNames = []string{"year", "month", "day", "hour", "hr", "minute", "min", "second"}

	dateText  = regexp.MustCompile(`^(19|20)[0-9]{2}[-_][01][0-9]([-_][0-3][0-9])?([-_ T].*)?$`)
	dateWhole = regexp.MustCompile(`^(19|20)[0-9]{2}[01][0-9][0-3][0-9]([0-9]{2}){0,3}$`)
	dateName  = regexp.MustCompile(`(?i)(^|[a-z]*[_-])(dt|ds|date|day|hour|datetime|yyyymmdd)$`)
)

// storage describes the writer of a file, by the names of the file and its folders: a Kafka sink, or one that stores rows by time.
type storage struct{ kafka, dated bool }

// storageOf returns the storage of a file with these partition values.
func storageOf(file string, values []Partition) (s storage) {
	var names []string
	for _, v := range values {
		name := strings.ToLower(v.Column)
		names = append(names, name)
		s.kafka = s.kafka || (name == "partition" || name == "kafka_partition") && isNumber(v.Text)
		s.dated = s.dated || isDate(v)
	}
	s.kafka = s.kafka || connectFile.MatchString(filepath.Base(file))
	s.dated = s.dated || s.kafka || slices.Contains(names, "year") && slices.Contains(names, "month") && slices.Contains(names, "day")
	return s
}

// has reports whether a partition value says where and when its row was stored.
func (s storage) has(v Partition) bool {
	name := strings.ToLower(v.Column)
	return s.kafka && slices.Contains(kafkaNames, name) || s.dated && slices.Contains(clockNames, name) && isNumber(v.Text) || isDate(v)
}

func isNumber(text string) bool { return strings.Trim(text, "0123456789") == "" }

func isDate(v Partition) bool {
	return dateText.MatchString(v.Text) || dateWhole.MatchString(v.Text) && dateName.MatchString(v.Column)
}
