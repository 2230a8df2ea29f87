package kafkalog

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// fakeLog is a compacted partition: its batches cover offsets up to end, and some offsets hold no record.
type fakeLog struct {
	batches []fakeBatch
	end     int64
}

type fakeBatch struct {
	base, end int64   // offset range
	records   []int64 // offsets with a record
	closes    bool    // the segment, and so the fetch response, ends after this batch
}

func randomLog(random *rand.Rand) fakeLog {
	var l fakeLog
	for range 1 + random.IntN(12) {
		b := fakeBatch{base: l.end + int64(random.IntN(3)*random.IntN(10)), closes: random.IntN(2) == 0}
		b.end = b.base + 1 + int64(random.IntN(1<<random.IntN(8)))
		density := random.Float64() * random.Float64()
		for o := b.base; o < b.end; o++ {
			if random.Float64() < density {
				b.records = append(b.records, o)
			}
		}
		l.batches = append(l.batches, b)
		l.end = b.end
	}
	return l
}

// fetch responds like a broker, from the batch that covers the offset or the next one.
func (l fakeLog) fetch(from int64) (batches []batch) {
	for _, b := range l.batches {
		if b.end <= from {
			continue
		}
		read := batch{next: b.end}
		for _, o := range b.records {
			if o >= from {
				read.messages = append(read.messages, Message{Offset: o})
			}
		}
		batches = append(batches, read)
		if b.closes {
			break
		}
	}
	return batches
}

// After any compaction, a cursor returns each record of its range once and reaches the end. Gaps need no additional
// fetches.
func TestCursorCrossesGaps(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 0))
		l := randomLog(random)
		from := random.Int64N(l.end + 1)
		to := from + random.Int64N(l.end-from+1)
		var want, got []int64
		for _, b := range l.batches {
			for _, o := range b.records {
				if from <= o && o < to {
					want = append(want, o)
				}
			}
		}
		fetches := 0
		for c := (cursor{position: from, to: to}); c.position < to; fetches++ {
			if fetches > 1000 {
				t.Fatalf("seed %d: not at the end after 1000 fetches: %+v", seed, c)
			}
			for _, m := range c.move(l.fetch(c.position)) {
				got = append(got, m.Offset)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: [%d, %d) is %v, want %v", seed, from, to, got, want)
		}
		if fetches > len(l.batches) {
			t.Errorf("seed %d: %d fetches for %d batches", seed, fetches, len(l.batches))
		}
	}
}

// An unbounded cursor stops at the end of the log and returns messages that are appended later.
func TestCursorAtTheEnd(t *testing.T) {
	for seed := range uint64(1000) {
		l := randomLog(rand.New(rand.NewPCG(seed, 1)))
		c := cursor{to: unbounded}
		for range 1000 {
			c.move(l.fetch(c.position))
		}
		if c.position != l.end {
			t.Fatalf("seed %d: at %d of %d: %+v", seed, c.position, l.end, c)
		}
		l.batches = append(l.batches, fakeBatch{base: l.end, end: l.end + 1, records: []int64{l.end}})
		if got := c.move(l.fetch(l.end)); len(got) != 1 || got[0].Offset != l.end {
			t.Fatalf("seed %d: %v", seed, got)
		}
	}
}
