package ingest

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/ingest/bound"
	"github.com/stagewise/stagewise/internal/option"
)

// checkTopic finds invalid keys for the range of a topic that a run reads.
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
	bounds := map[string]bound.Bound{}
	for _, key := range []struct {
		name   string
		values []string
	}{{"from", o.From}, {"to", o.To}} {
		if len(key.values) == 0 {
			continue
		}
		shown := strings.Join(key.values, ", ")
		b, ok := bound.Parse(key.values)
		if bounds[key.name] = b; !ok {
			wrong(key.name, shown, "a time, as 2026-11-01T00:00:00Z, an offset of at least 0 for all partitions, or a list with an "+
				"offset for each partition")
			return problems
		}
		if files {
			wrong(key.name, shown, "no files in examples.train and examples.test: a run of files uses all of their rows")
		}
	}
	if from, to := bounds["from"], bounds["to"]; len(bounds) == 2 && !from.Before(to) {
		wrong("to", strings.Join(o.To, ", "), "a later one than examples.from, which is "+strings.Join(o.From, ", "))
	}
	return problems
}
