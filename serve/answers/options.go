package answers

import (
	"fmt"
	"hash/fnv"
	"math"
	"regexp"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Options are the keys under `serve.answers`.
type Options struct {
	Topic  string  // "": answers are not written
	Sample float64 // fraction of requests whose answers are written, above 0 and at most 1
}

// Defaults returns the options of an empty configuration.
func Defaults() Options { return Options{Sample: 1} }

// Keys documents the keys under `serve.answers`.
func Keys() []option.Key {
	return []option.Key{
		{Name: "topic", Meaning: "topic to which `serve` writes the rows that it predicts, with the prediction: see " +
			"[answers](serving.md#answers-on-a-topic). None: not written"},
		{Name: "sample", Meaning: "fraction of the requests whose answers are written, chosen by a hash of the request's id"},
	}
}

// topicName is Kafka's rule for topic names.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Check returns the invalid keys, with what is expected.
func (o Options) Check() (problems []option.Problem) {
	if o.Topic != "" && !topicName.MatchString(o.Topic) {
		problems = append(problems, option.Problem{Key: "topic", Value: o.Topic,
			Want: "the name of a topic: letters, digits, dots, hyphens and underscores"})
	}
	if !(o.Sample > 0 && o.Sample <= 1) { // also rejects NaN
		problems = append(problems, option.Problem{Key: "sample", Value: fmt.Sprint(o.Sample), Want: "a fraction, above 0 and at most 1"})
	}
	return problems
}

// samples reports whether the answers to a request are written. The decision depends only on the id, so all servers agree.
func (o Options) samples(id string) bool {
	if o.Sample == 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	// FNV mixes the last bytes poorly into the high bits.
	return float64(wire.Mix(h.Sum64())) < o.Sample*math.MaxUint64
}
