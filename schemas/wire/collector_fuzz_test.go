package wire

import (
	"bytes"
	"errors"
	"strconv"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// The memory of a Collector is bounded, and it returns only records that were written, whatever messages come. Every
// three bytes are a message: which chunk of which record, and what is wrong with it.
func FuzzCollectorSequence(f *testing.F) {
	const records, chunks, maxBytes = 8, 3, 4 << 10
	schema, mem := FormatOf[float64]().Schema, arrowtest.Allocator(f)
	var messages [records][chunks]Message
	whole, largest := map[Digest]bool{}, 0
	for i := range messages {
		x := Vector("x", arrowtest.Numbered[float64](chunks*(i+1)))
		r := sums(x)
		r.Partition, r.Visit = i/4, i%2 // some share an identity
		whole[r.Digest()] = true
		size := recordOverhead
		for j := range chunks {
			n := i + 1
			value := arrowtest.Must(encodeSegments(schema, []segment[float64]{{&x, j * n, x.Data[j*n : (j+1)*n], nil}}, mem))(f)
			headers := append(r.Headers(), Header{"chunk", strconv.Itoa(j)}, Header{"chunks", strconv.Itoa(chunks)},
				Header{"digest", string(r.Digest())}, Header{"notes", strconv.Itoa(len(r.Notes))})
			messages[i][j] = Message{Headers: append(headers, r.Notes...), Value: value}
			size += chunkOverhead + len(value)
		}
		largest = max(largest, size)
	}
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 2, 0})
	f.Add([]byte{3, 2, 0, 4, 0, 0, 3, 1, 0, 4, 2, 0, 4, 1, 0, 3, 0, 0})
	f.Add(bytes.Repeat([]byte{0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0, 5, 0, 0, 6, 1, 0, 7, 1, 9}, 20))
	f.Fuzz(func(t *testing.T, sequence []byte) {
		mem, c := arrowtest.Allocator(t), &Collector[float64]{MaxBytes: maxBytes}
		for ; len(sequence) >= 3; sequence = sequence[3:] {
			i, j, wrong := sequence[0], sequence[1], int(sequence[2])
			m := messages[i%records][j%chunks]
			switch wrong % 4 {
			case 1:
				m.Value = bytes.Clone(m.Value)
				m.Value[wrong*len(m.Value)/256] ^= 1 << (wrong >> 2 % 8)
			case 2:
				m.Headers = append([]Header{{"digest", strconv.Itoa(int(j))}}, m.Headers...)
			case 3:
				m.Headers = append([]Header{{"chunk", strconv.Itoa(wrong >> 2 % chunks)}}, m.Headers...)
			}
			r, err := c.Add(m, mem)
			if err != nil && !errors.Is(err, ErrDamaged) || r != nil && !whole[r.Digest()] {
				t.Fatalf("%v, %v", r, err)
			}
			if kept := c.kept(); kept != c.bytes || kept > maxBytes+largest || c.waiting.Len() != len(c.open) {
				t.Fatalf("%d bytes are kept, %d counted, of %d incomplete records", kept, c.bytes, len(c.open))
			}
		}
	})
}
