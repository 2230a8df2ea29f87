package schemas

import "testing"

// What a topic has left of a source, whatever offsets it has.
func TestLeftOfASource(t *testing.T) {
	// Seven messages on two partitions. In partition 1 two messages of others stand between them.
	seal := SourceSeal{ID: "s", Attempt: "1", Partitions: 2, Messages: 7, Spans: Spans{{0, 10, 14}, {1, 0, 5}}}
	for _, test := range []struct {
		bounds []Span
		held   Holding
		left   int64
	}{
		{[]Span{{0, 0, 20}, {1, 0, 20}}, HeldWhole, 7},
		{[]Span{{0, 10, 14}, {1, 0, 5}}, HeldWhole, 7},
		{[]Span{{0, 11, 14}, {1, 0, 5}}, HeldInPart, 6},
		{[]Span{{0, 10, 14}, {1, 1, 5}}, HeldInPart, 7}, // of four offsets, three can have messages of the source
		{[]Span{{0, 15, 20}, {1, 4, 5}}, HeldInPart, 1},
		{[]Span{{0, 14, 20}, {1, 5, 5}}, HeldNot, 0},
		{[]Span{{0, 0, 14}, {1, 0, 4}}, HeldNot, 0}, // the topic was made anew
		{[]Span{{0, 0, 20}}, HeldNot, 0},
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
