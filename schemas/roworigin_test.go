package schemas

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Origins say of each row which message it is of, and as a header they say the same.
func TestRowOrigins(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		type place struct {
			partition int
			offset    int64
		}
		var origins examples.RowOrigins
		var rows []place
		next, longest := []int64{5, 0, 1 << 40}, len(examples.RowOrigins{}.Header().Value)
		for range random.IntN(60) {
			partition, n := random.IntN(len(next)), 1+random.IntN(2)*random.IntN(3)
			if random.IntN(2) == 0 && len(rows) > 0 {
				partition = rows[len(rows)-1].partition
			}
			next[partition] += int64(random.IntN(8) / 7) // a message that has no rows
			longest += origins.Bytes(partition, next[partition], n)
			origins = origins.Append(partition, next[partition], n)
			for range n {
				rows = append(rows, place{partition, next[partition]})
			}
			next[partition]++
		}
		read, err := examples.RowOriginsOf(wire.Message{Headers: []wire.Header{origins.Header()}})
		if err != nil || !slices.Equal(read, origins) {
			t.Fatalf("%v are read as %v, %v", origins, read, err)
		}
		if n := len(origins.Header().Value); n > longest {
			t.Errorf("the header has %d bytes, expected at most %d", n, longest)
		}
		for range 20 {
			partition, from := random.IntN(len(next)), int64(random.IntN(40))
			to := from + int64(random.IntN(10))
			var got, want []int
			origins.In(partition, from, to, func(first, end int) {
				for row := first; row < end; row++ {
					got = append(got, row)
				}
			})
			for row, p := range rows {
				if p.partition == partition && p.offset >= from && p.offset < to {
					want = append(want, row)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%v: the rows %v are of partition %d, offsets %d to %d; expected %v", origins, got, partition, from, to, want)
			}
		}
	}
	for _, text := range []string{"x", "[[0,1,2]]", "[[0,1,0,1]]", "[[0,-1,1,1]]", "[[0,1,1,4294967296]]", "[[-1,0,1,1]]"} {
		if read, err := examples.RowOriginsOf(wire.Message{Headers: []wire.Header{{Key: "stagewise-rows", Value: text}}}); !errors.Is(err,
			wire.ErrDamaged) {
			t.Errorf("%s: %v, %v", text, read, err)
		}
	}
}

// Keys come back as they were, whatever bytes they have. Those who decode the examples need not know of them.
func TestSourceKeys(t *testing.T) {
	mem := arrowtest.Allocator(t)
	rows := examples.Rows{Rows: 4, Cols: 1, Floats: []float32{1, 2, 3, 4}, Words: []string{"a", "b", "a", "b"}}
	for _, keys := range [][]string{nil, {"u42", "", "\xff\x00", "a key"}} {
		rows.SourceKeys, rows.Origins = keys, examples.RowOrigins{{Partition: 1, Offset: 7, Rows: 2, Messages: 2}}
		m := arrowtest.Must(Origin{Source: TopicSource("clicks"), Attempt: "1"}.TopicMessage(positions(), &rows, mem))(t)
		if got, err := examples.SourceKeys(m.Value, mem); err != nil || !slices.Equal(got, keys) {
			t.Errorf("the keys %q are read as %q, %v", keys, got, err)
		}
		if got, err := examples.RowOriginsOf(m); err != nil || !slices.Equal(got, rows.Origins) {
			t.Errorf("the origins %v are read as %v, %v", rows.Origins, got, err)
		}
		examples := arrowtest.Must(examples.Decode(m.Value, mem))(t)
		if examples.Rows != 4 || examples.Label(3) != "b" {
			t.Errorf("%d rows, the last with the label %s", examples.Rows, examples.Label(3))
		}
		examples.Release()
	}
	if keys, err := examples.SourceKeys([]byte("damaged"), mem); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("damaged bytes: %q, %v", keys, err)
	}
	if origins, err := examples.RowOriginsOf(goldens(t)["examples"]); origins != nil || err != nil {
		t.Errorf("rows of a file have origins %v, %v", origins, err)
	}
}
