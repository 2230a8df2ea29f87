package accumulate

import (
	"slices"

	"github.com/stagewise/stagewise/internal/spill"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// spilled is a field whose values are in a file. The sum has its name and shape.
type spilled struct {
	name       string
	at, values int
}

// spillWindow is the number of values of a field that are read at a time.
const spillWindow = 1 << 19

// Spill moves the values of the fields with a row for each column of sparse rows to a file, until the sum is merged: see
// [Sum.MergeWhole]. Before that, nobody may use these fields. The memory of the cross moment goes to the pool, which may be nil.
func (s *Sum) Spill(file *spill.File, crosses *CrossPool) error {
	s.Spread(crosses)
	for i := range s.fields {
		f := &s.fields[i]
		if !byColumn(f.Name) || f.Data == nil {
			continue
		}
		of := spilled{f.Name, file.Place(len(f.Data)), len(f.Data)}
		if err := file.Write(of.at, f.Data); err != nil {
			return err
		}
		s.file, s.spilled = file, append(s.spilled, of)
		if f.Name == statistics.FieldCross && crosses != nil {
			crosses.put(f.Data)
		}
		f.Data = nil
	}
	return nil
}

// load moves the spilled values back to memory, and adds the fields of o, which it removes from o. It adds them in the memory of
// o, as a + b has the bits of b + a, and reads the file a window at a time: memory has one matrix, not two.
func (s *Sum) load(o *Sum) error {
	if len(s.spilled) == 0 {
		return nil
	}
	window := make([]float64, spillWindow)
	for _, of := range s.spilled {
		mine, _ := s.find(of.name)
		theirs, both := o.find(of.name)
		if both = both && slices.Equal(theirs.Shape, mine.Shape); both {
			mine.Data = theirs.Data
			o.Take(of.name)
		} else {
			mine.Data = make([]float64, of.values)
		}
		for from := 0; from < of.values; from += spillWindow {
			part := mine.Data[from:min(from+spillWindow, of.values)]
			into := part
			if both {
				into = window[:len(part)]
			}
			if err := s.file.Read(of.at+from, into); err != nil {
				return err
			}
			if both {
				add(part, into)
			}
		}
		s.set(mine)
		s.file.Free(of.at, of.values)
	}
	s.file, s.spilled = nil, nil
	return nil
}

// freeSpilled frees the places of the spilled values, and removes their fields.
func (s *Sum) freeSpilled() {
	for _, of := range s.spilled {
		s.Take(of.name)
		s.file.Free(of.at, of.values)
	}
	s.file, s.spilled = nil, nil
}

// Spill spills the sums that wait for those of other partitions: see [Sum.Spill].
func (r *Reduction) Spill(file *spill.File) error {
	for _, g := range r.groups {
		if err := g.sum.Spill(file, r.Crosses); err != nil {
			return err
		}
	}
	if r.first == nil {
		return nil
	}
	return r.first.Spill(file, r.Crosses)
}
