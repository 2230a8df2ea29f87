package ingest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/config/option"
)

// Bound is the beginning or the end of a run on a topic. Offsets has an offset
// for each partition, or one for all of them. Without offsets, it is the first message
// of each partition with this time or a later one.
type Bound struct {
	Time    time.Time
	Offsets []int64
}

// ParseBound returns the bound that the values of examples.from or examples.to
// say: a time as in RFC 3339, or offsets. ok is false if they say none.
func ParseBound(values []string) (b Bound, ok bool) {
	for _, value := range values {
		if t, err := time.Parse(time.RFC3339Nano, value); err == nil && len(values) == 1 {
			return Bound{Time: t}, true
		}
		offset, err := strconv.ParseInt(value, 10, 64)
		if err != nil || offset < 0 {
			return Bound{}, false
		}
		b.Offsets = append(b.Offsets, offset)
	}
	return b, len(values) > 0
}

// On returns the offset for a partition, of a bound with offsets.
func (b Bound) On(partition int) int64 {
	if len(b.Offsets) == 1 {
		return b.Offsets[0]
	}
	return b.Offsets[partition]
}

// before reports whether a bound is before another on some partition, as far as
// the two say it.
func (b Bound) before(o Bound) bool {
	switch {
	case (b.Offsets == nil) != (o.Offsets == nil):
		return true // the times of messages decide
	case b.Offsets == nil:
		return b.Time.Before(o.Time)
	}
	for partition := range max(len(b.Offsets), len(o.Offsets)) {
		if len(b.Offsets) != 1 && len(o.Offsets) != 1 && len(b.Offsets) != len(o.Offsets) {
			return true // the number of partitions refuses one of them
		}
		if b.On(partition) < o.On(partition) {
			return true
		}
	}
	return false
}

// checkTopic finds what is impossible in the keys that say what a run reads of a
// topic.
func (o Options) checkTopic() (problems []option.Problem) {
	wrong := func(key string, value any, want string) {
		problems = append(problems, option.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	files := len(o.Train)+len(o.Test) > 0
	if o.Topic != "" && files {
		wrong("topic", o.Topic, "no files under examples.train and examples.test with it: they would be written to that topic, "+
			"which is only read")
	}
	if o.Topic != "" && o.FromTopic != "" {
		wrong("topic", o.Topic, "no examples.from_topic with it: ingest would write to that topic, which is only read")
	}
	bounds := map[string]Bound{}
	for _, key := range []struct {
		name   string
		values []string
	}{{"from", o.From}, {"to", o.To}} {
		if len(key.values) == 0 {
			continue
		}
		shown := strings.Join(key.values, ", ")
		b, ok := ParseBound(key.values)
		if bounds[key.name] = b; !ok {
			wrong(key.name, shown, "a time, as 2026-11-01T00:00:00Z, an offset of at least 0 for all partitions, or a list with an "+
				"offset for each partition")
			return problems
		}
		if files {
			wrong(key.name, shown, "no files under examples.train and examples.test with it: a run of files takes all of their rows")
		}
	}
	if from, to := bounds["from"], bounds["to"]; len(bounds) == 2 && !from.before(to) {
		wrong("to", strings.Join(o.To, ", "), "a later one than examples.from, which is "+strings.Join(o.From, ", "))
	}
	return problems
}
