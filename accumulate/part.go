package accumulate

import (
	"strings"

	"github.com/stagewise/stagewise/schemas/wire"
)

// SetPart makes the fields of part, which it does not copy, fields of s whose names begin with that of the part and a slash.
func (s *Sum) SetPart(name string, part *Sum) {
	for _, f := range part.Tensors() {
		f.Name = name + "/" + f.Name
		s.fields = append(s.fields, f)
	}
}

// Part returns the sum whose fields [Sum.SetPart] has set. It covers what s does, and shares its memory.
func (s *Sum) Part(name string) *Sum {
	var fields wire.Tensors[float64]
	for _, f := range s.fields {
		if of, ok := strings.CutPrefix(f.Name, name+"/"); ok {
			f.Name = of
			fields = append(fields, f)
		}
	}
	return NewSum(s.Coverage, fields)
}
