package accumulate

import (
	"sync"

	"github.com/stagewise/stagewise/schemas"
)

// Spares are the memory of Gram matrices that have been merged or sent: megabytes
// that would be cleared, and mapped, for each segment and each record anew. The
// zero value has none. Safe for concurrent use.
type Spares struct{ pool sync.Pool }

// Keep takes the Gram matrix, if there is one, out of a sum that nobody needs it of
// any more.
func (s *Spares) Keep(of *Sum) {
	if gram, ok := of.Take(schemas.FieldGram); ok && s != nil {
		s.pool.Put(&gram.Data)
	}
}

// Take is so many values, which may be anything.
func (s *Spares) Take(size int) []float64 {
	if s != nil {
		if spare, ok := s.pool.Get().(*[]float64); ok && cap(*spare) >= size {
			return (*spare)[:size]
		}
	}
	return make([]float64, size)
}
