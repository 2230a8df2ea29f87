package visit

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Outcome is the result of a visit to a segment.
type Outcome struct {
	Rows     int64
	Sum      *accumulate.Sum
	Sample   *accumulate.Sample // for growing trees
	Left     *coverage.Coverage // coverage of the rows that leave the window of a chain
	Terms    *accumulate.Sum    // of a chain's increment, when a stage of a full run is published
	Messages []wire.Message     // residuals, when a stage is published
	Scores   []scored
}

// scored is the scores and votes of a part of an examples message, for the digest of a seal.
type scored struct {
	Offset       int64
	Row          int
	Score, Votes []float32
}
