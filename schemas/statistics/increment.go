package statistics

import (
	"fmt"
	"strings"
)

// Increment names the parts of a sum in memory that belong to one increment of a chain, given its index among the increments that a visit
// reads, or that leave the window. So sums of several increments can be added. On topics they are stacked: see [FieldTerms].
type Increment int

// Scores is the name of Σ w x (xᵀV)ᵀ [p, k].
func (i Increment) Scores() string { return i.name("scores") }

// Cross is the name of Σ w x (y − g)ᵀ [p, k].
func (i Increment) Cross() string { return i.name("cross") }

// Terms is the name of both, stacked [2, p, k].
func (i Increment) Terms() string { return i.name("terms") }

// Visited is the name of the losses [4]: see [FieldVisited].
func (i Increment) Visited() string { return i.name("visited") }

// Leaving is the name of the Gram matrix of the rows that leave.
func (i Increment) Leaving() string { return i.name("leaves") }

// IsCross reports whether a field is a cross moment [p, k]: of all rows, or one of those of an increment.
func IsCross(field string) bool {
	of, _, numbered := strings.Cut(field, "/")
	return field == FieldCross || numbered && (of == "scores" || of == "cross")
}

func (i Increment) name(of string) string { return fmt.Sprintf("%s/%d", of, int(i)) }
