package dispatch

import (
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
)

// Small runs have one share, large ones have several, and runs of unknown work have as many as there may be.
func TestSharesFollowTheWork(t *testing.T) {
	wide, trees, all := schemas.Features{Size: 1024}, schemas.Features{Size: 1024, Leaves: 32}, schemas.Features{}
	for _, c := range []struct {
		rows     int64
		features schemas.Features
		foreign  bool
		want     int
	}{
		{0, wide, false, 1},
		{70_000, wide, false, 1},
		{1_000_000, wide, false, 8},
		{140_000, trees, false, 2},
		{1 << 60, trees, false, 8},
		{10, all, false, 8},
		{10, wide, true, 8},
	} {
		plan := &schemas.Plan{Foreign: c.foreign, Sources: []schemas.SourceSeal{{Rows: c.rows}}, Stages: []schemas.Stage{{Features: c.features}}}
		assert.Equal(t, sharesOf(plan), c.want, "shares of %d rows, %+v, foreign %v", c.rows, c.features, c.foreign)
	}
}
