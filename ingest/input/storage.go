package input

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

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
