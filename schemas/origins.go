package schemas

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindOrigins is the kind of an [Origins] message.
const KindOrigins wire.Kind = "origins"

// Origins describes the messages of a span of the examples topic, all of which ingest has made from a followed topic. With the
// messages of that topic, ingest can make them again.
type Origins struct {
	Span     coverage.Span `json:"span"`     // an offset without a stub holds no message
	First    map[int]int64 `json:"first"`    // by partition of the followed topic: first offset whose rows are in the span
	Template []byte        `json:"template"` // examples message without rows; it has the columns of those in the span
	Stubs    []Stub        `json:"stubs"`    // in the order of their offsets
}

// Stub is an examples message without its value.
type Stub struct {
	Offset   int64         `json:"offset"`
	Time     int64         `json:"time"` // timestamp in milliseconds since 1970
	Key      string        `json:"key"`
	Headers  []wire.Header `json:"headers"`
	Checksum string        `json:"checksum"` // of the value: see [ForgetChecksum]
}

// Message encodes the origins for the origins topic.
func (o *Origins) Message() wire.Message {
	return wire.JSONMessage(KindOrigins, "", fmt.Sprintf("origins/%d/%d", o.Span.Partition, o.Span.From), o)
}

// Check returns an error for stubs that are outside of the span, or not in order.
func (o *Origins) Check() error {
	next := o.Span.From
	for i := range o.Stubs {
		at := o.Stubs[i].Offset
		if at < next || at >= o.Span.To {
			return fmt.Errorf("a message at offset %d of %v, expected one at %d or later", at, o.Span, next)
		}
		next = at + 1
	}
	return coverage.Check(coverage.Spans{o.Span})
}

// SchemaOf returns the fingerprint of the schema of an ingested examples message.
func SchemaOf(m wire.Message) string { return m.Get(headerSchema) }
