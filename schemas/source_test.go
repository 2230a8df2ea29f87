package schemas

import (
	"testing"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// What a topic has left of a source, whatever offsets it has.
func TestLeftOfASource(t *testing.T) {
	// Seven messages on two partitions. In partition 1 two messages of others stand between them.
	seal := SourceSeal{ID: "s", Attempt: "1", Partitions: 2, Messages: 7, Spans: coverage.Spans{{Partition: 0, From: 10, To: 14},
		{Partition: 1, From: 0, To: 5}}}
	for _, test := range []struct {
		bounds []coverage.Span
		held   Holding
		left   int64
	}{
		{[]coverage.Span{{Partition: 0, From: 0, To: 20}, {Partition: 1, From: 0, To: 20}}, HeldWhole, 7},
		{[]coverage.Span{{Partition: 0, From: 10, To: 14}, {Partition: 1, From: 0, To: 5}}, HeldWhole, 7},
		{[]coverage.Span{{Partition: 0, From: 11, To: 14}, {Partition: 1, From: 0, To: 5}}, HeldInPart, 6},
		{[]coverage.Span{{Partition: 0, From: 10, To: 14}, {Partition: 1, From: 1, To: 5}}, HeldInPart, 7}, // of four offsets, three can have messages of the source
		{[]coverage.Span{{Partition: 0, From: 15, To: 20}, {Partition: 1, From: 4, To: 5}}, HeldInPart, 1},
		{[]coverage.Span{{Partition: 0, From: 14, To: 20}, {Partition: 1, From: 5, To: 5}}, HeldNot, 0},
		{[]coverage.Span{{Partition: 0, From: 0, To: 14}, {Partition: 1, From: 0, To: 4}}, HeldNot, 0}, // the topic was made anew
		{[]coverage.Span{{Partition: 0, From: 0, To: 20}}, HeldNot, 0},
	} {
		if held, left := seal.Held(test.bounds), seal.Left(test.bounds); held != test.held || left != test.left {
			t.Errorf("%v: held %d, %d messages left; expected %d and %d", test.bounds, held, left, test.held, test.left)
		}
	}
	for partition, want := range []int64{4, 3, 0} {
		if n := seal.In(partition); n != want {
			t.Errorf("%d messages in partition %d, expected %d", n, partition, want)
		}
	}
}
