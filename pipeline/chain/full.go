package chain

import (
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// ListIncrements lists in the plan of a full run the increments into which it divides a window: see [schemas.Window.Shortened].
func ListIncrements(chain *schemas.Chain, w *schemas.Window, most int, bytes int64) {
	for _, c := range w.Shortened(most, bytes) {
		chain.Increments = append(chain.Increments, c.Increment)
		chain.Times = append(chain.Times, coverage.IncrementTime{Number: c.Increment.Number, Until: c.Until})
	}
}

// KeepRows makes the gate withhold the version of a full run if it was trained on fewer rows than the increments in the
// plan, for whatever reason: subscribers then keep their version. Forgotten rows, and rows of removed sources, are
// expected to be missing.
func KeepRows(plan *schemas.Plan) {
	if len(plan.Forgotten) > 0 || len(plan.Removed) > 0 || plan.Chain.Gate == nil {
		return
	}
	rows := int64(0)
	for i := range plan.Chain.Increments {
		rows += plan.Chain.Increments[i].Learnt()
	}
	plan.Chain.AtLeast = max(plan.Chain.AtLeast, rows)
}

// PinsWithheld reports whether a withheld version is pinned.
func PinsWithheld(l *protocol.Ledger) bool {
	pinned := l.Pinned()
	return pinned != nil && pinned.Withheld
}

// ListSources lists in a plan the sources with messages in spans, and the removed ones among them.
func ListSources(plan *schemas.Plan, sealed *protocol.Ledger, sources []schemas.SourceSeal, spans coverage.Spans) {
	plan.Sources, plan.Removed = nil, nil
	for _, seal := range sources {
		if topics.Overlaps(&seal, spans) {
			plan.Sources = append(plan.Sources, seal.InPlan())
		}
	}
	for _, seal := range sealed.Removed() {
		if topics.Overlaps(seal, spans) {
			plan.Removed = append(plan.Removed, seal.Name())
		}
	}
}

// ProgressOf returns the progress of a plan's sources, and of followed topics, which plans do not name.
func ProgressOf(all []schemas.SourceProgress, sources []schemas.SourceSeal) (progress []schemas.SourceProgress) {
	for _, p := range all {
		if schemas.IsTopicSource(p.Source) ||
			slices.ContainsFunc(sources, func(s schemas.SourceSeal) bool { return s.ID == p.Source && s.Attempt == p.Attempt }) {
			progress = append(progress, p)
		}
	}
	return progress
}
