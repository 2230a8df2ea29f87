package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// forgotten is what the forget topic says.
type forgotten struct {
	rows    schemas.Forgotten // of messages that the examples topic has, or has deleted
	others  []saidMessage     // messages that the examples topic does not have: at their offsets is another message, or none yet
	sources map[string]bool   // ids of those whose rows are all forgotten
	exists  bool              // the topic
	next    int64             // offset after the last message that was read
	newest  time.Time         // when that was written

	entries map[string]bool // keys of the messages
	last    string          // the key of the last
	lost    []schemas.Heeded
	unknown []saidMessage // messages that were not compared with those of the examples topic
	told    int           // of others, how many were told
}

// newForgotten returns what a topic without messages says.
func newForgotten() *forgotten {
	return &forgotten{sources: map[string]bool{}, entries: map[string]bool{}}
}

// forgotten reads what the forget topic says now.
func (p *pipeline) forgotten(ctx context.Context) (*forgotten, error) {
	f := newForgotten()
	_, err := p.readForgotten(ctx, f)
	return f, err
}

// ForgottenRows returns a function that returns which rows of the examples of a job are forgotten. It reads what has come since it was called before.
// It is not safe for concurrent use.
func ForgottenRows(log *kafkalog.Log, job Job) func(context.Context) (schemas.Forgotten, error) {
	p, f := openFor(log, job, nil), newForgotten()
	return func(ctx context.Context) (schemas.Forgotten, error) {
		if _, err := p.readForgotten(ctx, f); err != nil {
			return nil, err
		}
		err := p.compare(ctx, f)
		return f.rows, err
	}
}

// readForgotten adds to f what has come since, and reports whether anything has. A pipeline of an earlier release may have no such topic:
// nothing is forgotten then.
func (p *pipeline) readForgotten(ctx context.Context, f *forgotten) (more bool, err error) {
	topic := p.forgetTopic()
	if topic == "" {
		return false, nil
	}
	_, end, err := p.Log.Bounds(ctx, topic, 0)
	if f.exists = err == nil; errors.Is(err, kafkalog.ErrUnknownTopic) {
		err, end = nil, 0
	}
	if err == nil && end < f.next { // it was made anew, or has lost its end
		heeded := f.heeded()
		*f = forgotten{sources: map[string]bool{}, entries: map[string]bool{}, exists: f.exists}
		if more, err = p.readForgotten(ctx, f); err == nil && f.lacks(heeded) {
			err = &ForgetLostError{Topic: topic, Heeded: *heeded}
		}
		return more, err
	}
	if err != nil || end == f.next {
		return false, err
	}
	err = p.Remaining(ctx, topic, 0, f.next, end, func(m run.Message) error {
		if m.Value == nil || m.Kind() != schemas.KindForget {
			return nil
		}
		said, err := schemas.DecodeJSON[schemas.Forget](m.Message)
		if err != nil {
			return fmt.Errorf("%s[0]@%d: %w", topic, m.Offset, err)
		}
		more, f.entries[m.Key], f.last = true, true, m.Key
		if said.Lost != nil {
			f.lost = append(f.lost, *said.Lost)
		}
		if len(said.Checksums) == 0 {
			f.rows = f.rows.Union(said.Rows)
		}
		f.unknown = append(f.unknown, messagesOf(*said, m.Time)...)
		if said.Source != "" {
			f.sources[said.Source] = true
		}
		f.newest = m.Time
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read what is forgotten: %w", err)
	}
	f.next = end
	return more, nil
}

// haveLearnt returns the versions that have learnt from forgotten rows, in ascending order: a run that they go back to has read such rows, its
// plan does not leave them out, and no later update takes them away. If a plan is gone that one goes back to, it has learnt from what was forgotten after it.
func (p *pipeline) haveLearnt(ctx context.Context, f *forgotten) (learnt []schemas.Place, err error) {
	if err := p.compare(ctx, f); err != nil || len(f.rows)+len(f.others) == 0 {
		return nil, err
	}
	past, err := p.past(ctx)
	if err != nil {
		return nil, err
	}
	for i := range past.versions {
		v := &past.versions[i]
		runs, err := past.runs(&v.Manifest)
		has := false
		if err != nil {
			has, runs = v.Written.Before(f.newest), []earlierRun{{plan: v.Plan}}
		}
		has = has || p.haveRead(plansOf(runs), f.rows.Union(f.otherBefore(v.Written)))
		place, err := past.ledger.Find(v.Run)
		if has && err == nil {
			learnt = append(learnt, place)
		}
	}
	return learnt, nil
}

// haveRead reports whether runs, each of which goes on from the one before, have learnt any of these rows: one of them has read it, and neither its
// plan nor that of a later update that takes rows away has it among the forgotten ones.
func (p *pipeline) haveRead(plans []*schemas.Plan, rows schemas.Forgotten) bool {
	var taken schemas.Forgotten
	for _, plan := range slices.Backward(plans) {
		if plan.Topic != p.archiveTopic() { // offsets of another topic
			continue
		}
		if u := plan.Update(); u != nil && len(u.Forget) > 0 {
			taken = taken.Union(plan.Forgotten)
		}
		if !plan.Forgotten.Union(taken).Covers(rows.Within(plan.Spans)) {
			return true
		}
	}
	return false
}

// plansOf returns the plans of runs.
func plansOf(runs []earlierRun) (plans []*schemas.Plan) {
	for _, r := range runs {
		plans = append(plans, r.plan)
	}
	return plans
}

// removeLearnt removes versions that have learnt from forgotten rows, and what their runs have left on the state topic. It leaves those that
// the plan of an unfinished run names.
func (p *pipeline) removeLearnt(ctx context.Context, learnt []schemas.Place) (removed []int, left []schemas.Place, err error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, learnt, err
	}
	if slices.ContainsFunc(learnt, func(place schemas.Place) bool { return l.NamedBy(place) == "" }) {
		if err := p.releaseLearnt(ctx, l, learnt); err != nil {
			return nil, learnt, err
		}
	}
	for i, place := range learnt {
		if l.NamedBy(place) != "" {
			left = append(left, place)
			continue
		}
		if err := p.RemoveVersion(ctx, place); err != nil {
			return removed, append(left, learnt[i:]...), err
		}
		removed = append(removed, place.Version)
	}
	if len(removed) > 0 && p.admin != nil { // what tombstones have removed is on the disk until the topics are compacted
		if err := p.admin.Compact(ctx, p.Topics.Versions, p.Topics.State); err != nil {
			return removed, left, err
		}
	}
	return removed, left, nil
}

// releaseLearnt removes from the state topic what a chain does not need that goes on from its newest version that has not learnt from forgotten
// rows. While a run is unfinished it does nothing, as that may need the rest.
func (p *pipeline) releaseLearnt(ctx context.Context, l *run.Ledger, learnt []schemas.Place) error {
	if anyUnfinished(l) {
		return nil
	}
	var kept *run.StoredWindow
	for _, place := range slices.Backward(l.Versions()) {
		if slices.Contains(learnt, place) {
			continue
		}
		manifest, err := p.Version(ctx, place.Run)
		if err != nil {
			return err
		}
		if manifest.Plan.Chain == nil {
			continue
		}
		if manifest.Window != nil {
			if kept, err = run.ReadWindow(ctx, p.Client, *manifest.Window, nil); err != nil {
				return err
			}
		}
		break
	}
	return p.ReleaseOtherState(ctx, kept)
}

// forget removes the versions that have learnt from forgotten rows, after a run that has not.
func (p *pipeline) forget(ctx context.Context, made string, rec event.Recorder) error {
	f, err := p.forgotten(ctx)
	if err != nil {
		return err
	}
	learnt, err := p.haveLearnt(ctx, f)
	if err != nil || slices.ContainsFunc(learnt, func(place schemas.Place) bool { return place.Run == made }) {
		return err // more was forgotten while it ran
	}
	f.tell(p.Topics.Examples, rec)
	removed, _, err := p.removeLearnt(ctx, learnt)
	noteRemoved(rec, removed)
	return err
}

// noteRemoved says which versions are removed.
func noteRemoved(rec event.Recorder, versions []int) {
	for _, version := range versions {
		event.Notice(rec, "version %d is removed: it had learnt from rows that were forgotten", version)
	}
}

// LearntError says that a run can't start from a version, as that has learnt from forgotten rows.
type LearntError struct{ Version int }

// Error says what to do.
func (e *LearntError) Error() string {
	return fmt.Sprintf("version %d has learnt from rows that were forgotten: train once without warm", e.Version)
}

// ForgottenError says that files can't be ingested or learnt because their source was forgotten.
type ForgottenError struct {
	Files  []string // of the source
	Source string   // its id
	Topic  string   // the forget topic
}

// Error names the files, the source and the topic.
func (e *ForgottenError) Error() string {
	return fmt.Sprintf("%q: source %s was forgotten, as %s says: no run learns it. Leave it out of the configuration",
		e.Files, schemas.Digest(e.Source).Short(), e.Topic)
}
