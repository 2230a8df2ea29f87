package worker

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// ofVisit reports whether a record belongs to the statistics of a visit. The Gram matrices of an update do not depend on
// weights, so each visit to a stage needs those of the stage.
func (w *Worker) ofVisit(id wire.Identity, v protocol.Visit) bool {
	if id.Kind == statistics.KindSeal || id.Stage != v.Stage {
		return false
	}
	return id.Visit == v.Number && id.Parent == v.Parent || w.isGramOfUpdate(id)
}

func (w *Worker) isGramOfUpdate(id wire.Identity) bool {
	return w.Plan.Update() != nil && id.Stage != wire.Survey && statistics.OfGram(id.Kind)
}

// ofSeal reports whether a record is the seal of a stage whose final weights are the parent of the due visit.
func ofSeal(id wire.Identity, v protocol.Visit, seal int) bool {
	return id.Kind == statistics.KindSeal && id.Stage == seal && id.Parent == v.Parent
}

// forgetWritten drops the records that a solver does not wait for when a visit and the seals of a stage are due.
func (w *Worker) forgetWritten(v protocol.Visit, seal int) {
	maps.DeleteFunc(w.written, func(id wire.Identity, _ *protocol.Written) bool {
		return !w.ofVisit(id, v) && !ofSeal(id, v, seal) && !(w.isGramOfUpdate(id) && id.Stage > v.Stage) // or published ahead
	})
}

// repeat makes the worker compute and publish again its last records that a solver still waits for and the log has lost. A
// slow solver alone is no reason: it would get no new data.
func (w *Worker) repeat(ctx context.Context) error {
	v, seal := w.chain.Due()
	visits, err := w.lost(ctx, func(id wire.Identity) bool { return w.ofVisit(id, v) })
	if err != nil {
		return err
	}
	seals, err := w.lost(ctx, func(id wire.Identity) bool { return ofSeal(id, v, seal) })
	if err != nil {
		return err
	}
	for _, p := range w.shares {
		if visits[w.first(p)] {
			p.Visited, p.Grams = protocol.Visit{}, 0
		}
		if seals[w.first(p)] {
			w.seals.Delete(sealed{w.first(p), seal})
		}
	}
	return nil
}

// lost returns the shares, by first partition, whose wanted records are no longer on the log at the offsets where a solver reads them.
func (w *Worker) lost(ctx context.Context, wanted func(wire.Identity) bool) (map[int]bool, error) {
	lost := map[int]bool{}
	for _, id := range slices.SortedFunc(maps.Keys(w.written), compareRecords) {
		if !wanted(id) {
			continue
		}
		there, err := false, error(nil)
		if r := w.written[id]; !r.Precedes(w.Plan.Since.Statistics) {
			there, err = w.Holds(ctx, r)
		}
		if err != nil {
			return nil, err
		}
		if !there {
			lost[id.Partition] = true
		}
	}
	return lost, nil
}

// compareRecords orders the records of a run.
func compareRecords(a, b wire.Identity) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Visit, b.Visit), cmp.Compare(a.Partition,
		b.Partition), cmp.Compare(a.Parent, b.Parent))
}
