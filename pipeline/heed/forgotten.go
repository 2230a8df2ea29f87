package heed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Forgotten is the state of the forget topic.
type Forgotten struct {
	Rows    coverage.Forgotten // of messages that are on the examples topic, or were deleted from it
	others  []saidMessage      // messages that are not on the examples topic: their offsets hold other messages, or none yet
	Sources map[string]bool    // ids of sources whose rows are all forgotten
	exists  bool               // whether the topic exists
	next    int64              // offset after the last message that was read
	newest  time.Time          // timestamp of that message

	entries map[string]bool // message keys
	last    string          // key of the last message
	lost    []schemas.Heeded
	unknown []saidMessage // messages not yet compared with the examples topic
	told    int           // number of others already reported
}

// NewForgotten returns the state of an empty topic.
func NewForgotten() *Forgotten {
	return &Forgotten{Sources: map[string]bool{}, entries: map[string]bool{}}
}

// Read reads the current state of the forget topic.
func Read(ctx context.Context, p *topics.Pipeline) (*Forgotten, error) {
	f := NewForgotten()
	_, err := ReadMore(ctx, p, f)
	return f, err
}

// ForgottenRows returns a function that returns the forgotten rows of a job's examples. Each call reads only the messages
// appended since the previous call. It is not safe for concurrent use.
func ForgottenRows(log *kafkalog.Log, job topics.Job) func(context.Context) (coverage.Forgotten, error) {
	p, f := topics.OpenFor(log, job, nil), NewForgotten()
	return func(ctx context.Context) (coverage.Forgotten, error) {
		if _, err := ReadMore(ctx, p, f); err != nil {
			return nil, err
		}
		err := Compare(ctx, p, f)
		return f.Rows, err
	}
}

// ReadMore folds the messages appended since the last read into f, and reports whether there are any. A pipeline of an
// earlier release may have no forget topic: nothing is forgotten then.
func ReadMore(ctx context.Context, p *topics.Pipeline, f *Forgotten) (more bool, err error) {
	topic := topics.ForgetTopic(p)
	if topic == "" {
		return false, nil
	}
	_, end, err := p.Log.Bounds(ctx, topic, 0)
	if f.exists = err == nil; errors.Is(err, kafkalog.ErrUnknownTopic) {
		err, end = nil, 0
	}
	if err == nil && end < f.next { // the topic was recreated or truncated
		heeded := f.Heeded()
		*f = Forgotten{Sources: map[string]bool{}, entries: map[string]bool{}, exists: f.exists}
		if more, err = ReadMore(ctx, p, f); err == nil && f.lacks(heeded) {
			err = &ForgetLostError{Topic: topic, Heeded: *heeded}
		}
		return more, err
	}
	if err != nil || end == f.next {
		return false, err
	}
	err = p.Remaining(ctx, topic, 0, f.next, end, func(m protocol.Message) error {
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
			f.Rows = f.Rows.Union(said.Rows)
		}
		f.unknown = append(f.unknown, messagesOf(*said, m.Time)...)
		if said.Source != "" {
			f.Sources[said.Source] = true
		}
		f.newest = m.Time
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read forgotten rows: %w", err)
	}
	f.next = end
	return more, nil
}

// HaveLearnt returns the versions trained on forgotten rows, in ascending order. A version is trained on a row if an
// ancestor run has read it and the run's plan does not exclude it. If the plan of an ancestor run is missing, the version counts as
// trained on everything forgotten after it was written.
func HaveLearnt(ctx context.Context, p *topics.Pipeline, f *Forgotten) (learnt []schemas.Place, err error) {
	if err := Compare(ctx, p, f); err != nil || len(f.Rows)+len(f.others) == 0 {
		return nil, err
	}
	past, err := ReadHistory(ctx, p)
	if err != nil {
		return nil, err
	}
	for i := range past.versions {
		v := &past.versions[i]
		runs, err := past.Runs(&v.Manifest)
		has := false
		if err != nil {
			has, runs = v.Written.Before(f.newest), []EarlierRun{{Plan: v.Plan}}
		}
		has = has || haveRead(p, PlansOf(runs), f.Rows.Union(f.otherBefore(v.Written)))
		place, err := past.ledger.Find(v.Run)
		if has && err == nil {
			learnt = append(learnt, place)
		}
	}
	return learnt, nil
}

// haveRead reports whether any of these runs was trained on any of the rows: it has read the row, and its plan does not list it as
// forgotten.
func haveRead(p *topics.Pipeline, plans []*schemas.Plan, rows coverage.Forgotten) bool {
	for _, plan := range plans {
		if plan.Topic != topics.ForeignTopic(p) { // offsets of another topic
			continue
		}
		if !plan.Forgotten.Covers(rows.Within(plan.Spans)) {
			return true
		}
	}
	return false
}

// RemoveLearnt removes versions trained on forgotten rows, and the records of their runs on the state topic. It keeps
// versions that the plan of an unfinished run refers to.
func RemoveLearnt(ctx context.Context, p *topics.Pipeline, learnt []schemas.Place) (removed []int, left []schemas.Place, err error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, learnt, err
	}
	if slices.ContainsFunc(learnt, func(place schemas.Place) bool { return l.NamedBy(place) == "" }) {
		if err := releaseLearnt(ctx, p, l, learnt); err != nil {
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
	if len(removed) > 0 && p.Admin != nil { // tombstoned messages stay on disk until compaction
		if err := p.Admin.Compact(ctx, p.Topics.Versions, p.Topics.State); err != nil {
			return removed, left, err
		}
	}
	return removed, left, nil
}

// releaseLearnt removes the state that a chain does not need to continue from its newest version not trained on forgotten
// rows. It does nothing while a run is unfinished, since the run may need the rest.
func releaseLearnt(ctx context.Context, p *topics.Pipeline, l *protocol.Ledger, learnt []schemas.Place) error {
	if l.AnyUnfinished() {
		return nil
	}
	var kept *protocol.StateWindow
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
			if kept, err = protocol.ReadStateWindow(ctx, p.Client, *manifest.Window, nil); err != nil {
				return err
			}
		}
		break
	}
	return protocol.ReleaseOtherState(ctx, p.Client, kept)
}

// Forget removes the versions trained on forgotten rows, after a run that excluded them.
func Forget(ctx context.Context, p *topics.Pipeline, made string, rec event.Recorder) error {
	f, err := Read(ctx, p)
	if err != nil {
		return err
	}
	learnt, err := HaveLearnt(ctx, p, f)
	if err != nil || slices.ContainsFunc(learnt, func(place schemas.Place) bool { return place.Run == made }) {
		return err // more rows were forgotten during the run
	}
	f.Tell(p.Topics.Examples, rec)
	removed, _, err := RemoveLearnt(ctx, p, learnt)
	NoteRemoved(rec, removed)
	return err
}

// NoteRemoved records the removed versions.
func NoteRemoved(rec event.Recorder, versions []int) {
	for _, version := range versions {
		event.Notice(rec, "version %d is removed: it was trained on forgotten rows", version)
	}
}

// LearntError means that a run can't start from a version because the version was trained on forgotten rows.
type LearntError struct{ Version int }

// Error includes the remedy.
func (e *LearntError) Error() string {
	return fmt.Sprintf("version %d was trained on forgotten rows: train once without warm", e.Version)
}

// ForgottenError means that files can't be ingested or used in training because their source was forgotten.
type ForgottenError struct {
	Files  []string // files of the source
	Source string   // source id
	Topic  string   // forget topic
}

// Error includes the files, the source and the topic.
func (e *ForgottenError) Error() string {
	return fmt.Sprintf("%q: source %s is forgotten (on %s), and no run learns it: remove it from the configuration",
		e.Files, wire.Digest(e.Source).Short(), e.Topic)
}
