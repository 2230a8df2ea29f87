package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/chain"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// findHead finds the newest version of the chain, the state of its run, and the number of failed runs that continue from
// it, all in one ledger without unfinished runs.
func (r *runner) findHead(ctx context.Context, l *protocol.Ledger) error {
	head, err := r.newestOfChain(ctx, l)
	if err != nil {
		return err
	}
	r.chain.Number, r.chain.Attempt = 1, 0
	if head != nil {
		if err := topics.CheckExamples(r.Pipeline, head.Plan, fmt.Sprintf("version %d", head.Version)); err != nil {
			return err
		}
		r.chain.Number = head.Plan.Chain.Number + 1
	}
	if last := l.Chained(); last != nil && last.Number >= r.chain.Number {
		r.chain.Number, r.chain.Attempt = last.Number, last.Attempt+1
	}
	switch {
	case head == nil:
		r.looksForClasses()
		removed := r.chain.Head != nil
		r.chain, r.earlier = chain.State{Number: r.chain.Number, Attempt: r.chain.Attempt}, nil
		if !r.backlog.Begun() || removed {
			bounds, err := r.Log.Spans(ctx, r.Topics.Examples)
			if err != nil {
				return err
			}
			var begins []int64
			for _, span := range bounds {
				begins = append(begins, span.From)
			}
			r.backlog.Begin(begins, slices.Clone(begins), nil)
		}
		return nil
	case r.chain.Head != nil && r.chain.Head.Run == head.Run:
		return nil
	}
	follows := head.Run == r.made && r.backlog.Partitions() > 0
	known := r.chain.Stored
	if parent := head.Plan.Chain.Parent; r.chain.Head != nil && parent != nil && parent.Run == r.chain.Head.Run {
		r.earlier = append([]earlier{{r.chain.Head.Plan, known}}, r.earlier...)
	} else {
		r.earlier = nil
	}
	r.looksForClasses()
	r.chain = chain.State{Head: head, Number: r.chain.Number, Attempt: r.chain.Attempt}
	if r.choose != nil {
		r.keepChoice(head.Plan.Stages, head.Plan.Prepare)
	}
	if r.chain.Stored, err = r.readWindow(ctx, *head, known); err != nil {
		return err
	}
	var window *schemas.Window
	if r.chain.Stored != nil {
		window = r.chain.Stored.Window
	} else if window, err = r.windowOfPlans(ctx); err != nil {
		return err
	}
	r.chain.SetWindow(window)
	r.chain.Least = window.AtLeast
	if r.chain.Renews {
		if r.chain.Least, err = r.offeredRows(ctx, l); err != nil {
			return err
		}
	}
	r.release(ctx)
	if follows {
		r.backlog.Advance(head.Plan)
		return nil
	}
	r.proven = false
	r.backlog.Begin(slices.Clone(head.Plan.Chain.Begins), slices.Clone(r.chain.Window.Ends), head.Plan.Chain.Marks)
	return nil
}

// readWindow reads the window after a version, given the previous one; nil if it is not on the state topic, or damaged.
func (r *runner) readWindow(ctx context.Context, head schemas.Manifest, known *protocol.StateWindow) (*protocol.StateWindow, error) {
	if head.Window == nil {
		return nil, nil
	}
	w, err := protocol.ReadStateWindow(ctx, r.Client, *head.Window, known)
	if errors.Is(err, wire.ErrDamaged) {
		return nil, nil
	}
	return w, err
}

// newestOfChain returns the manifest of the newest complete version of a chain; nil if there is none.
func (r *runner) newestOfChain(ctx context.Context, l *protocol.Ledger) (*schemas.Manifest, error) {
	newest := r.Newest()
	for _, place := range slices.Backward(l.Versions()) {
		if newest != nil && newest.Manifest.Run == place.Run && newest.Manifest.Plan.Chain != nil {
			return newest.Manifest, nil
		}
		if r.chain.Head != nil && r.chain.Head.Run == place.Run {
			return r.chain.Head, nil
		}
		m, _, err := r.ModelAt(ctx, place, nil)
		if protocol.IsIncomplete(err) {
			r.passOver(place, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if m.Manifest.Plan.Chain != nil {
			r.Remember(m) // an update of this process needs it
			return m.Manifest, nil
		}
	}
	return nil, nil
}

// passOver reports once that a version is incomplete.
func (r *runner) passOver(place schemas.Place, why error) {
	if !r.passed[place.Version] {
		r.passed[place.Version] = true
		r.rec.Record(event.Incomplete{Version: place.Version, Why: why})
	}
}

// offered returns the manifest of the newest offered version that exists; nil if there is none.
func (r *runner) offered(ctx context.Context, l *protocol.Ledger) (*schemas.Manifest, error) {
	for _, place := range slices.Backward(l.Versions()) {
		if place.Withheld {
			continue
		}
		if r.chain.Head != nil && place.Run == r.chain.Head.Run {
			return r.chain.Head, nil
		}
		m, err := r.Version(ctx, place.Run)
		if protocol.IsIncomplete(err) {
			r.passOver(place, err)
			continue
		}
		return m, err
	}
	return nil, nil
}

// offeredRows returns the number of rows in the window of the version for subscribers; 0 if unknown.
func (r *runner) offeredRows(ctx context.Context, l *protocol.Ledger) (int64, error) {
	m, err := r.offered(ctx, l)
	if err != nil || m == nil {
		return 0, err
	}
	return m.WindowRows, nil
}
