package profile

import "hash/maphash"

// sampled is the maximum number of hashes of a column.
const sampled = 1 << 14

// distinct counts different texts. It keeps all hashes, with their frequencies, up to a limit; then only those that end
// with ever more zeros (adaptive sampling: Wegman, in Flajolet 1990). So counts up to sampled are exact, and others are
// within some percent.
type distinct struct {
	seed   maphash.Seed
	kept   map[uint64]int32
	zeros  uint
	repeat bool // a kept text occurred twice
}

func newDistinct() *distinct { return &distinct{seed: maphash.MakeSeed(), kept: map[uint64]int32{}} }

func (d *distinct) add(text string) {
	hash := maphash.String(d.seed, text)
	if hash&(1<<d.zeros-1) != 0 {
		return
	}
	if d.kept[hash]++; d.kept[hash] > 1 {
		d.repeat = true
	}
	for len(d.kept) > sampled {
		d.zeros++
		for hash := range d.kept {
			if hash&(1<<d.zeros-1) != 0 {
				delete(d.kept, hash)
			}
		}
	}
}

// count returns the approximate number of different texts.
func (d *distinct) count() int { return len(d.kept) << d.zeros }
