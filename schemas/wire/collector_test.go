package wire

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// loneChunk makes a message that claims to be one of many chunks. The others never arrive.
func loneChunk(i int, value []byte) Message {
	id := Identity{Kind: "visit", Run: "run", Stage: i % 3, Visit: i % 5, Partition: i % 7, Parent: "parent"}
	return Message{Value: value, Headers: append(id.Headers(),
		Header{"chunk", "0"}, Header{"chunks", "10000"}, Header{"digest", fmt.Sprint("never ", i)})}
}

// kept counts again how many bytes the collector keeps.
func (c *Collector[T]) kept() (bytes int) {
	for _, at := range c.open {
		bytes += recordOverhead
		for _, value := range at.Value.(*incomplete).values {
			bytes += chunkOverhead + len(value)
		}
	}
	return bytes
}

// Records that never become complete take at most MaxBytes, whether their chunks are large or small.
func TestCollectorIsBounded(t *testing.T) {
	for _, size := range []int{0, 1000, MaxMessage} {
		mem := arrowtest.NewMeter()
		c, evicted := &Collector[float64]{MaxBytes: 4 << 20}, 0
		value := make([]byte, size)
		for i := range 20_000 {
			r, err := c.Add(loneChunk(i, value), mem)
			gone := (*EvictedError)(nil)
			if r != nil || err != nil && !(errors.As(err, &gone) && errors.Is(err, ErrDamaged) && gone.Have == 1 && gone.Chunks == 10_000) {
				t.Fatalf("%v, %v", r, err)
			}
			if gone != nil {
				evicted++
			}
			if i%1000 > 0 {
				continue
			}
			if kept := c.kept(); kept > c.MaxBytes || kept != c.bytes || c.waiting.Len() != len(c.open) {
				t.Fatalf("%d bytes are kept, %d counted, of %d records, %d waiting", kept, c.bytes, len(c.open), c.waiting.Len())
			}
		}
		if evicted == 0 || mem.Total > 0 {
			t.Errorf("%d records are evicted, %d bytes decoded", evicted, mem.Total)
		}
	}
	c := &Collector[float64]{}
	if _, err := c.Add(loneChunk(0, make([]byte, MaxMessage+1)), arrowtest.NewMeter()); !errors.Is(err, ErrDamaged) || len(c.open) > 0 {
		t.Errorf("%v, %d records", err, len(c.open))
	}
}

// The records of several workers become complete in a flood of other chunks that takes MaxBytes many times over, as long
// as their chunks keep arriving.
func TestRecordsComeThroughAFlood(t *testing.T) {
	const writers = 8
	mem := arrowtest.Allocator(t)
	var queues [][]Message
	size := 0
	for i := range writers {
		r := sums(Vector("x", arrowtest.Numbered[float64](segmentValues*120)))
		r.Partition = i
		messages := arrowtest.Must(r.Encode(mem))(t)
		for _, m := range messages {
			size += len(m.Value)
		}
		queues = append(queues, messages)
	}
	filler := make([]byte, 200_000)
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		c, whole, left := &Collector[float64]{MaxBytes: 2 * size}, 0, make([][]Message, writers)
		copy(left, queues)
		for whole < writers {
			for flood := range 3 {
				_, err := c.Add(loneChunk(random.Int(), filler[:100_000*flood]), mem)
				if gone := (*EvictedError)(nil); errors.As(err, &gone) && gone.Chunks != 10_000 {
					t.Fatal(err)
				}
			}
			i := random.IntN(writers)
			if len(left[i]) == 0 {
				continue
			}
			r, err := c.Add(left[i][0], mem)
			if gone := (*EvictedError)(nil); errors.As(err, &gone) && gone.Chunks != 10_000 || r == nil && len(left[i]) == 1 {
				t.Fatalf("seed %d, writer %d: %v, %v", seed, i, r, err)
			}
			if left[i] = left[i][1:]; r != nil {
				whole++
			}
		}
	}
}

// Decoding very many tensors takes time proportional to their bytes.
func TestRecordOfManyTensors(t *testing.T) {
	var tensors Tensors[float64]
	for range 60_000 {
		tensors = append(tensors, Tensor[float64]{Name: "", Shape: []int{0}})
	}
	roundTrip(t, sums(tensors...))
}
