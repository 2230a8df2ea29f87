package schemas

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// numberedIncrement is what a run of a chain adds that has ten messages of each partition.
func numberedIncrement(number, partitions int) WindowIncrement {
	c := coverage.Increment{Number: number, Weight: 1, Forgotten: 7}
	for p := range partitions {
		from := int64(1_000_000 + 10*number)
		c.Covered = append(c.Covered, coverage.Coverage{Spans: coverage.Spans{{Partition: p, From: from, To: from + 10}}, Messages: 10,
			Rows: 100, Checksum: 1<<63 + uint64(number)})
	}
	terms := StatePlace{Run: fmt.Sprintf("%012x", number), From: int64(number), To: int64(number) + 4, Index: 2}
	return WindowIncrement{Increment: c, Visited: number, Fitted: 90, Messages: 10, Until: 1_764_000_000_000 + int64(number), Terms: terms}
}

// What increments have is what they have once they are one. Neighbours that can't be one stay apart.
func TestJoinedIncrementsHaveWhatTheyHad(t *testing.T) {
	w := &Window{}
	for number := 1; number <= 6; number++ {
		w.Increments = append(w.Increments, numberedIncrement(number, 3))
	}
	w.Increments[2].Increment.Skipped = coverage.Spans{{Partition: 1, From: 1_000_031, To: 1_000_032}}
	w.Increments[0].Increment.Weight = 0.5
	rows, before := w.Rows(), slices.Clone(w.Increments)
	w.Increments = w.Shortened(4, 1<<20)
	want := WindowIncrement{Increment: coverage.Increment{Number: 2, Weight: 1, Forgotten: 21, Joined: 3, Skipped: before[2].Increment.Skipped},
		Visited: 2, Fitted: 270, Messages: 30, Until: before[3].Until, Terms: before[1].Terms}
	for p := range 3 {
		want.Increment.Covered = append(want.Increment.Covered, coverage.Coverage{Spans: coverage.Spans{{Partition: p, From: 1_000_020,
			To: 1_000_050}}, Messages: 30, Rows: 300, Checksum: 1<<63 + 9})
	}
	if len(w.Increments) != 3 || !reflect.DeepEqual(w.Increments[1], want) || w.Rows() != rows {
		t.Errorf("joined %+v, expected %+v; %d rows, expected %d", w.Increments[1], want, w.Rows(), rows)
	}
}

// The JSON of a window is no longer than Bytes says, and that of as many increments as may be has room in a document, with its plan.
func TestWindowsHaveRoomInDocuments(t *testing.T) {
	for _, partitions := range []int{1, 4, 100, 1000} {
		w := &Window{Run: "0123456789ab"}
		for number := 100_000; w.Bytes() <= WindowBytes; number++ {
			for range max(1000/partitions, 1) {
				w.Increments = append(w.Increments, numberedIncrement(number, partitions))
			}
		}
		if n := int64(len(wire.JSON(w))); n > w.Bytes() || 2*n > wire.MaxDocument {
			t.Errorf("%d partitions, %d increments: %d bytes, of at most %d", partitions, len(w.Increments), n, w.Bytes())
		}
	}
}

// A long window is cut into as many as have room, with all of its rows. Increments of other weights, and what came
// before a change of the stream, stay apart.
func TestLongWindowsAreShortened(t *testing.T) {
	const bytes = 1 << 20
	w := &Window{}
	for number := 1; number <= 10_000; number++ {
		w.Increments = append(w.Increments, numberedIncrement(number, 10))
	}
	w.Changed = 9_999
	w.Increments[4].Increment.Weight = 0.5
	short := &Window{Increments: w.Shortened(0, bytes)}
	if short.Bytes() > bytes || short.Rows() != w.Rows() {
		t.Errorf("%d increments of %d bytes with %d rows, expected at most %d with %d", len(short.Increments), short.Bytes(),
			short.Rows(), bytes, w.Rows())
	}
	size := 0
	for i := range short.Increments {
		c := &short.Increments[i].Increment
		if size += c.Size(); c.Number < w.Changed && c.Number+c.Size() > w.Changed || c.Number < 5 && c.Number+c.Size() > 5 ||
			c.Number == 5 && c.Size() > 1 {
			t.Errorf("increment %d has %d", c.Number, c.Size())
		}
	}
	if size != len(w.Increments) {
		t.Errorf("%d increments, expected %d", size, len(w.Increments))
	}
	if half := (&Window{Increments: short.Increments[1:]}).Shortened(len(short.Increments)-1, bytes); len(half) > len(short.Increments)/2+3 {
		t.Errorf("%d of %d increments", len(half), len(short.Increments))
	}
	if few := (&Window{Increments: w.Increments[:10]}).Shortened(11, bytes); len(few) != 10 {
		t.Errorf("%d of 10 increments that have room", len(few))
	}
}
