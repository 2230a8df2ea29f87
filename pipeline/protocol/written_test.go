package protocol

import (
	"testing"

	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A record written before the start offsets of a reader does not exist for the reader, although it is on the log.
func TestRecordsBeforeAReaderBegins(t *testing.T) {
	w := NewWritten(wire.Identity{Kind: statistics.KindVisit}, "statistics", 1)
	w.Add(Message{Offset: 13})
	w.Add(Message{Offset: 12})
	for _, test := range []struct {
		begins []int64
		want   bool
	}{{nil, false}, {[]int64{99}, false}, {[]int64{0, 12}, false}, {[]int64{0, 13}, true}, {[]int64{0, 14}, true}} {
		if got := w.Precedes(test.begins); got != test.want {
			t.Errorf("begins %v: %v, expected %v", test.begins, got, test.want)
		}
	}
}
