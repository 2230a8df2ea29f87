package source

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
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

// ReadForgotten reads the current state of the forget topic.
func ReadForgotten(ctx context.Context, p *topics.Pipeline) (*Forgotten, error) {
	f := NewForgotten()
	_, err := ReadMoreForgotten(ctx, p, f)
	return f, err
}

// ForgottenRows returns a function that returns the forgotten rows of a job's examples. Each call reads only the messages
// appended since the previous call. It is not safe for concurrent use.
func ForgottenRows(log *kafkalog.Log, job topics.Job) func(context.Context) (coverage.Forgotten, error) {
	p, f := topics.OpenFor(log, job, nil), NewForgotten()
	return func(ctx context.Context) (coverage.Forgotten, error) {
		_, err := ReadMoreForgotten(ctx, p, f)
		return f.Rows, err
	}
}

// ReadMoreForgotten folds the messages appended since the last read into f, and reports whether there are any. Without a forget topic
// nothing is forgotten.
func ReadMoreForgotten(ctx context.Context, p *topics.Pipeline, f *Forgotten) (more bool, err error) {
	if more, err = f.read(ctx, p); err == nil {
		err = CompareForgotten(ctx, p, f)
	}
	return more, err
}

// read is ReadMoreForgotten without a comparison.
func (f *Forgotten) read(ctx context.Context, p *topics.Pipeline) (more bool, err error) {
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
		*f = *NewForgotten()
		if more, err = f.read(ctx, p); err == nil && f.lacks(heeded) {
			err = &ForgetLostError{Topic: topic, Heeded: *heeded}
		}
		return more, err
	}
	if err != nil || end == f.next {
		return false, err
	}
	failed := func(err error) error { return fmt.Errorf("read forgotten rows: %w", err) }
	for m, err := range p.Remaining(ctx, topic, 0, f.next, end) {
		if err != nil {
			return false, failed(err)
		}
		if m.Value == nil || m.Kind() != schemas.KindForget {
			continue
		}
		said, err := schemas.DecodeJSON[schemas.Forget](m.Message)
		if err != nil {
			return false, failed(fmt.Errorf("%s[0]@%d: %w", topic, m.Offset, err))
		}
		more, f.entries[m.Key], f.last = true, true, m.Key
		if said.Lost != nil {
			f.lost = append(f.lost, *said.Lost)
		}
		if len(said.Checksums) == 0 {
			f.Rows = f.Rows.Union(said.Rows)
		}
		checksums := said.Checksums
		for _, r := range said.Rows {
			for at := r.From; at < r.To && len(checksums) > 0; at++ {
				rows := r
				rows.From, rows.To = at, at+1
				f.unknown, checksums = append(f.unknown, saidMessage{rows, checksums[0], m.Time}), checksums[1:]
			}
		}
		if said.Source != "" {
			f.Sources[said.Source] = true
		}
		f.newest = m.Time
	}
	f.next = end
	return more, nil
}

// HaveLearnt returns the versions trained on forgotten rows, in ascending order. A version is trained on a row if an
// ancestor run has read it and the run's plan does not exclude it. If the plan of an ancestor run is missing, the version counts as
// trained on everything forgotten after it was written.
func HaveLearnt(ctx context.Context, p *topics.Pipeline, f *Forgotten) (learnt []schemas.Place, err error) {
	if len(f.Rows)+len(f.others) == 0 {
		return nil, nil
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
		var others coverage.Forgotten // a later version was trained on the messages that replaced these
		for _, m := range slices.Concat(f.others, f.unknown) {
			if v.Written.Before(m.said) {
				others = append(others, m.rows)
			}
		}
		rows := f.Rows.Union(others)
		has = has || slices.ContainsFunc(runs, func(r EarlierRun) bool { // of another topic, the offsets are of other rows
			return r.Plan.Topic == p.Foreign && !r.Plan.Forgotten.Covers(rows.Within(r.Plan.Spans))
		})
		place, err := past.ledger.Find(v.Run)
		if has && err == nil {
			learnt = append(learnt, place)
		}
	}
	return learnt, nil
}

// RemoveLearnt removes versions trained on forgotten rows, and the records of their runs on the state topic. It keeps
// versions that the plan of an unfinished run refers to.
func RemoveLearnt(ctx context.Context, p *topics.Pipeline, learnt []schemas.Place, rec event.Recorder) (removed []int,
	left []schemas.Place, err error) {
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
		event.Notice(rec, "version %d is removed: it was trained on forgotten rows", place.Version)
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
	var kept *schemas.Window
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
			if kept, err = protocol.ReadWindow(ctx, p.Client, *manifest.Window); err != nil {
				return err
			}
		}
		break
	}
	return protocol.ReleaseOtherState(ctx, p.Client, kept)
}

// ForgetLearnt removes the versions trained on forgotten rows, after a run that excluded them.
func ForgetLearnt(ctx context.Context, p *topics.Pipeline, made string, rec event.Recorder) error {
	f, err := ReadForgotten(ctx, p)
	if err != nil {
		return err
	}
	learnt, err := HaveLearnt(ctx, p, f)
	if err != nil || slices.ContainsFunc(learnt, func(place schemas.Place) bool { return place.Run == made }) {
		return err // more rows were forgotten during the run
	}
	f.Tell(p.Topics.Examples, rec)
	_, _, err = RemoveLearnt(ctx, p, learnt, rec)
	return err
}

// saidMessage is an examples message whose rows a forget message names, with the checksum that it had at that time.
type saidMessage struct {
	rows     coverage.ForgottenRows // rows of this message
	checksum string                 // "" means that the offset held no message
	said     time.Time
}

// fewOffsets is the largest gap between two messages that is read rather than skipped: a second request would take longer.
const fewOffsets = 256

// CompareForgotten checks which of the messages not compared yet are still on the examples topic; rows of replaced messages are not
// forgotten. Messages beyond the end of the topic stay unknown, because another message may be written there.
func CompareForgotten(ctx context.Context, p *topics.Pipeline, f *Forgotten) error {
	if len(f.unknown) == 0 {
		return nil
	}
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return err
	}
	var known coverage.Forgotten
	var there, unknown []saidMessage
	for _, m := range f.unknown {
		switch s := m.rows.Span(); {
		case s.Partition >= len(bounds) || s.To > bounds[s.Partition].To:
			unknown = append(unknown, m)
		case s.From < bounds[s.Partition].From:
			known = append(known, m.rows) // deleted by retention, but versions may have been trained on it
		default:
			there = append(there, m)
		}
	}
	var spans coverage.Spans // of messages that are near each other
	for _, m := range there {
		s := m.rows.Span()
		s.To += fewOffsets
		spans = append(spans, s)
	}
	checksums := map[coverage.Span]string{}
	for _, s := range spans.Merged() {
		for m, err := range p.Remaining(ctx, p.Topics.Examples, s.Partition, s.From, s.To-fewOffsets) {
			if err != nil {
				return fmt.Errorf("read the messages whose rows were forgotten: %w", err)
			}
			checksums[coverage.Span{Partition: s.Partition, From: m.Offset, To: m.Offset + 1}] = schemas.ForgetChecksum(m.Message)
		}
	}
	var others []saidMessage
	for _, m := range there {
		if now, has := checksums[m.rows.Span()]; !has || now == m.checksum {
			known = append(known, m.rows)
		} else {
			others = append(others, m)
		}
	}
	f.Rows, f.others, f.unknown = f.Rows.Union(known), append(f.others, others...), unknown
	return nil
}

// Tell reports the forgotten offsets that now hold other messages.
func (f *Forgotten) Tell(topic string, rec event.Recorder) {
	if f.told == len(f.others) {
		return
	}
	var rows coverage.Forgotten
	for _, m := range f.others[f.told:] {
		rows = append(rows, m.rows)
	}
	f.told = len(f.others)
	event.Notice(rec, "rows at %v of %s were forgotten, but these offsets now hold other messages, which are not forgotten",
		rows.Union(nil).Spans(), topic)
}

// Heeded returns the part of the forget topic that was read; nil if it was empty.
func (f *Forgotten) Heeded() *schemas.Heeded {
	if len(f.entries) == 0 {
		return nil
	}
	return &schemas.Heeded{Entries: len(f.entries), Last: f.last}
}

// lacks reports whether the topic has lost messages that heeded covers, and no operator has accepted the loss.
func (f *Forgotten) lacks(heeded *schemas.Heeded) bool {
	if heeded == nil || slices.Contains(f.lost, *heeded) {
		return false
	}
	return len(f.entries) < heeded.Entries || heeded.Last != "" && !f.entries[heeded.Last]
}

// CheckForgotten returns a *[ForgetLostError] if the forget topic lacks messages that a version has applied.
func CheckForgotten(p *topics.Pipeline, f *Forgotten, version *schemas.Manifest) error {
	heeded := version.Plan.Heeded
	if version.Plan.Topic != p.Foreign || !f.lacks(heeded) {
		return nil
	}
	return &ForgetLostError{Topic: topics.ForgetTopic(p), Version: version.Version, Heeded: *heeded, Has: len(f.entries)}
}

// CheckNewest calls [CheckForgotten] with the newest readable version.
func CheckNewest(ctx context.Context, p *topics.Pipeline, l *protocol.Ledger, f *Forgotten) error {
	for _, place := range slices.Backward(l.Versions()) {
		manifest, err := p.Version(ctx, place.Run)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			return CheckForgotten(p, f, manifest)
		}
	}
	return nil
}

// ForgetLostError means that the forget topic has lost messages, so that a run would train on forgotten rows.
type ForgetLostError struct {
	Topic   string
	Version int            // version that has applied the lost messages; 0: a running process has
	Heeded  schemas.Heeded // the part that it has applied
	Has     int            // number of messages on the topic
}

// Error includes the operator's options.
func (e *ForgetLostError) Error() string {
	who := "this process"
	if e.Version > 0 {
		who = fmt.Sprintf("version %d", e.Version)
	}
	return fmt.Sprintf("%s has lost forgotten rows: %s applied %d of its messages, but it now has %d messages, or others: restore it "+
		"from a backup, or use `stagewise forget --lost restore` to forget again the rows that versions name, or `--lost drop` to "+
		"let runs learn those rows", e.Topic, who, e.Heeded.Entries, e.Has)
}

// The operator's decisions when the forget topic has lost messages.
const (
	RestoreLost = "restore" // forget again the rows that the plans of versions list as forgotten
	DropLost    = "drop"    // continue without them
)

// ErrNothingLost means that the forget topic has lost nothing.
var ErrNothingLost = errors.New("the forget topic has all messages that versions applied: nothing is lost")

// decideLost returns the messages that record the operator's decision, so that runs continue although the forget topic has
// lost messages, and the rows to forget again.
func decideLost(ctx context.Context, p *topics.Pipeline, f *Forgotten, decision string) (said []schemas.Forget,
	rows coverage.Forgotten, err error) {
	versions, err := p.Versions(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range versions {
		plan := versions[i].Plan
		heeded := plan.Heeded
		if plan.Topic != p.Foreign || !f.lacks(heeded) {
			continue
		}
		rows = rows.Union(plan.Forgotten)
		if !slices.ContainsFunc(said, func(s schemas.Forget) bool { return *s.Lost == *heeded }) {
			said = append(said, schemas.Forget{Lost: heeded})
		}
	}
	switch {
	case len(said) == 0:
		return nil, nil, ErrNothingLost
	case decision == DropLost:
		return said, nil, nil
	}
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	return said, rows.Within(bounds), err
}

// SaidAfter returns the positions from which to follow changes to the set of training examples: seals and removals of
// sources, and forgotten rows. sealed and f are the state so far.
func SaidAfter(p *topics.Pipeline, sealed *protocol.Ledger, f *Forgotten) (positions []protocol.Position) {
	if owner := p.Owner(); owner == p.Client || owner != nil && sealed.Next > 0 { // otherwise the topic may not exist
		positions = append(positions, protocol.Position{Topic: owner.Topics.Plans, Offset: sealed.Next, Compacted: true})
	}
	if f.exists {
		positions = append(positions, protocol.Position{Topic: topics.ForgetTopic(p), Offset: f.next, Compacted: true})
	}
	return positions
}

// EarlierRun is an ancestor run of a version.
type EarlierRun struct {
	Plan     *schemas.Plan
	Version  int               // version that the run has made; 0: unknown
	Manifest *schemas.Manifest // manifest of that version; nil if it was removed
}

// Name returns the name of the run's result for error messages.
func (r *EarlierRun) Name() string {
	if r.Version == 0 {
		return "the version of run " + r.Plan.Run()
	}
	return fmt.Sprintf("version %d", r.Version)
}

// History is the known runs of a pipeline.
type History struct {
	ledger   *protocol.Ledger
	versions []protocol.Finished
	topic    string // plans topic
}

// ReadHistory reads the known runs of the pipeline.
func ReadHistory(ctx context.Context, p *topics.Pipeline) (*History, error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	versions, err := p.Versions(ctx)
	return &History{l, versions, p.Topics.Plans}, err
}

// Runs returns the ancestor runs of a version in order, from the last cold start. The error is a *[MissingPlanError].
func (h *History) Runs(asked *schemas.Manifest) (runs []EarlierRun, err error) {
	for id := asked.Run; ; {
		r := EarlierRun{Plan: h.ledger.Plan(id)}
		if end := h.ledger.End(id); end != nil && end.Version != nil {
			r.Version = end.Version.Version
		}
		if i := slices.IndexFunc(h.versions, func(f protocol.Finished) bool { return f.Run == id }); i >= 0 {
			r.Manifest = &h.versions[i].Manifest
			r.Plan, r.Version = r.Manifest.Plan, r.Manifest.Version
		}
		if id == asked.Run { // the version may have been removed in the meantime
			r.Manifest, r.Plan, r.Version = asked, asked.Plan, asked.Version
		}
		if r.Plan == nil {
			return nil, &MissingPlanError{Version: asked.Version, Run: id, Topic: h.topic}
		}
		runs = append(runs, r)
		if r.Plan.Warm == nil {
			slices.Reverse(runs)
			return runs, nil
		}
		id = r.Plan.Warm.Run
	}
}

// MissingPlanError means that a version can't be reproduced because the plan of an ancestor run is missing.
type MissingPlanError struct {
	Version int    // version to reproduce
	Run     string // run whose plan is missing
	Topic   string // plans topic
}

// Error includes the missing plan.
func (e *MissingPlanError) Error() string {
	return fmt.Sprintf("version %d depends on run %s, whose plan is no longer on %s: it can't be reproduced", e.Version, e.Run, e.Topic)
}

// ToForget selects the rows of the examples topic to forget.
type ToForget struct {
	Rows    coverage.Forgotten // by offset, in any order
	Sources []string           // ids of ingested sources, or id prefixes
	Keys    []string           // keys of messages, on the examples topic or a followed topic
	Read    []SourceRows       // by their position on a followed topic
	Lost    string             // decision about lost forget messages: RestoreLost or DropLost; empty: none
	Now     bool               // remove versions trained on the rows now, rather than after the next full run
	Answers string             // topic with answers of servers; empty: none
}

// SourceRows are the rows of the messages in a span of a followed topic.
type SourceRows struct {
	Topic string
	coverage.Span
}

// String returns the notation of the rows.
func (r SourceRows) String() string { return r.Topic + r.Span.String() }

// Forgot is the result of [Forget].
type Forgot struct {
	Messages int64 `json:"messages"` // with forgotten rows, and still on the topic
	Rows     int64 `json:"rows"`
	Removed  []int `json:"removed_versions,omitempty"`
	// Learnt are the remaining versions trained on forgotten rows; with Now, because unfinished runs need them.
	Learnt []int  `json:"learnt_versions,omitempty"`
	Stays  []Stay `json:"stays"` // data that forgetting does not erase
	// Compacts are the topics with data of removed versions until the brokers compact them; none: it is deleted from disk.
	Compacts []Compacts `json:"compacts,omitempty"`
}

// Compacts describes when the brokers compact a topic.
type Compacts struct {
	Topic string    `json:"topic"`
	From  time.Time `json:"from,omitzero"` // a message written then or later rolls the segment with the removed data; zero: unknown
}

// Stay describes how long data of forgotten rows is retained.
type Stay struct {
	Topic string    `json:"topic,omitempty"`
	Files string    `json:"files,omitempty"` // of an archive, rather than a topic
	What  string    `json:"what"`
	Until time.Time `json:"until,omitzero"` // latest time; zero: unlimited
}

// AddRows adds rows of the examples topic: topic/partition/offset/row, or topic/partition/offset for all rows of a message; or
// topic/partition/offset of the followed topic, if there is one. Offset and row may be inclusive ranges, such as 3-7; a row needs a single
// offset.
func (f *ToForget) AddRows(examples, followed, text string) error {
	if parts := strings.Split(text, "/"); len(parts) == 3 || len(parts) == 4 {
		partition, err := strconv.Atoi(parts[1])
		from, to, ok := parseRange(parts[2])
		span := coverage.Span{Partition: partition, From: from, To: to}
		switch valid := ok && err == nil && partition >= 0; {
		case valid && len(parts) == 3 && parts[0] == examples:
			f.Rows = append(f.Rows, coverage.ForgottenRows{Partition: partition, From: from, To: to})
			return nil
		case valid && len(parts) == 3 && parts[0] == followed && followed != "":
			f.Read = append(f.Read, SourceRows{followed, span})
			return nil
		case valid && len(parts) == 4 && parts[0] == examples && span.Len() == 1:
			if first, end, ok := parseRange(parts[3]); ok && end <= maxRow {
				f.Rows = append(f.Rows, coverage.ForgottenRows{Partition: partition, From: from, To: to, First: int(first), End: int(end)})
				return nil
			}
		}
	}
	return fmt.Errorf("%q: expected %s/PARTITION/OFFSET/ROW, or without /ROW for all rows of a message, or "+
		"TOPIC/PARTITION/OFFSET of the topic examples.from_topic. OFFSET or ROW may be a range, such as 3-7", text, examples)
}

// maxRow exceeds the number of rows of any message.
const maxRow = 1 << 30

// parseRange parses a number, or two separated by a dash. end is the number after the last.
func parseRange(text string) (first, end int64, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.ParseInt(from, 10, 62)
	last, wrong := strconv.ParseInt(to, 10, 62)
	return first, last + 1, err == nil && wrong == nil && first >= 0 && last >= first
}

// Forget excludes rows of the examples of a job's pipeline from all future training. It resolves sources and keys to the
// rows that are currently on the topic. If some of them do not exist, the error is a *[topics.RefusedError], and nothing is forgotten.
func Forget(ctx context.Context, p *topics.Pipeline, job topics.Job, what ToForget) (*Forgot, error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	sources, err := findSources(p.Topics.Plans, knownIn(l), what.Sources)
	if err != nil {
		return nil, err
	}
	var decided []schemas.Forget
	if what.Lost != "" {
		f, err := ReadForgotten(ctx, p)
		if err != nil {
			return nil, err
		}
		said, rows, err := decideLost(ctx, p, f, what.Lost)
		if err != nil {
			return nil, err
		}
		decided, what.Rows = said, append(what.Rows, rows...)
	}
	said, done, err := resolve(ctx, p, what, sources)
	if err != nil {
		return nil, err
	}
	said = append(said, decided...)
	if err := topics.Require(ctx, p, &job, p.Topics.Forget); err != nil {
		return nil, err
	}
	if err := topics.CheckPolicies(ctx, p, nil, p.Topics.Forget); err != nil {
		return nil, err
	}
	var messages []wire.Message
	for i := range said {
		messages = append(messages, said[i].Message())
	}
	if _, err := p.Log.Append(ctx, p.Topics.Forget, 0, messages...); err != nil {
		return nil, fmt.Errorf("write forgotten rows: %w", err)
	}
	f, err := ReadForgotten(ctx, p)
	if err != nil {
		return nil, err
	}
	learnt, err := HaveLearnt(ctx, p, f)
	if err != nil {
		return done, err
	}
	if what.Now {
		if done.Removed, learnt, err = RemoveLearnt(ctx, p, learnt, nil); err != nil {
			return done, err
		}
	}
	if len(done.Removed) > 0 && !p.Admin.Embedded() {
		if done.Compacts, err = compacts(ctx, p); err != nil {
			return done, err
		}
	}
	for _, place := range learnt {
		done.Learnt = append(done.Learnt, place.Version)
	}
	done.Stays, err = stays(ctx, p, job.Examples, what.Answers)
	return done, err
}

// resolve returns the messages for the forget topic: one or more for offsets and keys, and for each source.
func resolve(ctx context.Context, p *topics.Pipeline, what ToForget, sources []string) (said []schemas.Forget, done *Forgot, err error) {
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return nil, nil, err
	}
	f := &found{Pipeline: p, named: what.Rows.Union(nil), read: what.Read, keyed: len(what.Keys) > 0, there: map[any]bool{},
		sources: map[string]coverage.Forgotten{}, checksums: map[coverage.Span]string{}, done: &Forgot{},
		wrong: &topics.RefusedError{Nothing: "Nothing is forgotten"}}
	for _, r := range f.named {
		if r.Partition >= len(bounds) || r.To > bounds[r.Partition].To {
			f.wrong.Add("%s has nothing at %v", p.Topics.Examples, r.Span())
		}
	}
	if len(f.wrong.Reasons) > 0 {
		return nil, nil, f.wrong
	}
	for _, key := range what.Keys {
		f.there[outcome.TextOf(key)] = false
	}
	for _, read := range what.Read {
		f.there[read] = false
	}
	for _, id := range sources {
		f.sources[id] = nil
	}
	if len(f.there)+len(f.sources) == 0 {
		bounds = f.named.Spans()
	}
	for _, s := range bounds {
		for m, err := range p.Remaining(ctx, p.Topics.Examples, s.Partition, s.From, s.To) {
			if err != nil {
				return nil, nil, fmt.Errorf("read examples: %w", err)
			}
			f.look(s.Partition, m)
		}
	}
	for _, key := range what.Keys {
		if !f.there[outcome.TextOf(key)] {
			f.wrong.Add("no message on %s has the key %q", p.Topics.Examples, key)
		}
	}
	for _, read := range what.Read {
		if !f.there[read] {
			f.wrong.Add("no row on %s was read from %v", p.Topics.Examples, read)
		}
	}
	if len(f.wrong.Reasons) > 0 {
		return nil, nil, f.wrong
	}
	add := func(rows coverage.Forgotten, source string) {
		for _, part := range parts(rows.Union(nil)) {
			s := schemas.Forget{Rows: part, Source: source}
			for _, r := range part {
				for at := r.From; at < r.To; at++ {
					s.Checksums = append(s.Checksums, f.checksums[coverage.Span{Partition: r.Partition, From: at, To: at + 1}])
				}
			}
			said = append(said, s)
		}
	}
	add(f.named.Union(f.byOrigin), "")
	for _, id := range sources {
		if len(f.sources[id]) == 0 {
			said = append(said, schemas.Forget{Source: id}) // retention has deleted all of it
		}
		add(f.sources[id], id)
	}
	return said, f.done, nil
}

const (
	maxForgotten = 4000  // the maximum number of row ranges in a forget message: their JSON must fit into a message
	maxChecksums = 20000 // the maximum number of offsets with checksums
)

// parts divides rows between several forget messages.
func parts(rows coverage.Forgotten) (parts []coverage.Forgotten) {
	var part coverage.Forgotten
	room := int64(maxChecksums)
	for _, r := range rows {
		for !r.Span().Empty() {
			if room == 0 || len(part) == maxForgotten {
				parts, part, room = append(parts, part), nil, maxChecksums
			}
			cut := r
			cut.To = min(r.To, r.From+room)
			part, room, r.From = append(part, cut), room-cut.Span().Len(), cut.To
		}
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}

// found is the rows found so far.
type found struct {
	*topics.Pipeline
	named     coverage.Forgotten // selected by offset
	read      []SourceRows
	keyed     bool                          // some are selected by key
	there     map[any]bool                  // by key, and by position on a followed topic: whether there is any row
	byOrigin  coverage.Forgotten            // rows of messages with these keys, or read from these positions
	sources   map[string]coverage.Forgotten // by source
	checksums map[coverage.Span]string      // of the messages with such rows
	wrong     *topics.RefusedError          // rows that do not exist
	done      *Forgot
}

// wants reports whether rows with a key are selected, and records that there are some. Keys are compared by their texts: an archive may
// have them in another encoding than the topic.
func (f *found) wants(key string) (wanted bool) {
	for _, text := range outcome.Texts(key) {
		if _, there := f.there[text]; there && text != "" {
			f.there[text], wanted = true, true
		}
	}
	return wanted
}

// look searches an examples message.
func (f *found) look(partition int, m protocol.Message) {
	all := coverage.ForgottenRows{Partition: partition, From: m.Offset, To: m.Offset + 1}
	named := f.named.Within(coverage.Spans{all.Span()})
	some := f.lookWithin(all, m)
	f.byOrigin = append(f.byOrigin, some...)
	taken := named.Union(some)
	if origin, ingested := schemas.OriginOf(m.Message); ingested {
		if of, wanted := f.sources[origin.Source]; wanted {
			f.sources[origin.Source], taken = append(of, all), coverage.Forgotten{all}
		}
	}
	if len(taken) == 0 {
		return
	}
	f.checksums[all.Span()] = schemas.ForgetChecksum(m.Message)
	rows := RowsIn(f.Pipeline, m) // 0 of an unusable message
	for _, r := range named {
		if r.End > rows {
			f.wrong.Add("%s/%d/%d has %d rows, no row %d", f.Topics.Examples, partition, m.Offset, rows, r.End-1)
		}
	}
	f.done.Messages++
	taken.In(partition, m.Offset, rows, func(first, end int) { f.done.Rows += int64(end - first) })
}

// lookWithin returns the rows of a message with selected keys or positions: those of its own key, and those that ingest has read from
// such messages. A message may have rows of many source messages.
func (f *found) lookWithin(all coverage.ForgottenRows, m protocol.Message) (some coverage.Forgotten) {
	if f.wants(m.Key) {
		some = append(some, all)
	}
	topic, followed := schemas.TopicOf(m.Message)
	if !followed || len(f.there) == 0 {
		return some
	}
	origins, err := examples.RowOriginsOf(m.Message)
	if err != nil {
		return some // damaged messages are not trained on
	}
	take := func(first, end int) {
		r := all
		r.First, r.End = first, end
		some = append(some, r)
	}
	for _, read := range f.read {
		if read.Topic == topic {
			origins.In(read.Partition, read.From, read.To, func(first, end int) {
				f.there[read] = true
				take(first, end)
			})
		}
	}
	if f.keyed {
		keys, _ := examples.SourceKeys(m.Value, f.Memory) // none of a damaged message
		for row, key := range keys {
			if f.wants(key) {
				take(row, row+1)
			}
		}
	}
	return some.Union(nil)
}

// configOf returns the settings of a topic; nil if it does not exist. denied means that this process may not read them.
func configOf(ctx context.Context, p *topics.Pipeline, topic string) (config map[string]string, denied bool, err error) {
	configs, err := p.Admin.Configs(ctx, topic)
	if denied = errors.As(err, new(*kafkalog.AccessError)); denied || errors.Is(err, kafkalog.ErrUnknownTopic) {
		err = nil
	}
	return configs[topic], denied, err
}

// compacts returns when brokers compact the topics from which data was removed. They do not compact the active segment,
// which is rolled by a message written long enough after its first one.
func compacts(ctx context.Context, p *topics.Pipeline) (compacts []Compacts, err error) {
	for _, topic := range []string{p.Topics.Versions, p.Topics.State} {
		config, denied, err := configOf(ctx, p, topic)
		if err != nil {
			return nil, err
		}
		if config == nil && !denied {
			continue
		}
		c, after := Compacts{Topic: topic}, int64(math.MaxInt64)
		for _, key := range []string{"segment.ms", "max.compaction.lag.ms"} {
			if ms, known := topics.Limit(config[key]); known && ms > 0 && ms < after {
				after = ms
				c.From = p.Clock.Now().Add(time.Duration(ms) * time.Millisecond)
			}
		}
		compacts = append(compacts, c)
	}
	return compacts, nil
}

// stays returns the maximum retention of data that forgetting does not erase, if nothing writes it again.
func stays(ctx context.Context, p *topics.Pipeline, o ingest.Options, answers string) (stays []Stay, err error) {
	t := p.Topics
	now := p.Clock.Now()
	for _, s := range []Stay{
		{Topic: t.Examples, What: "the rows"}, {Topic: t.Residuals, What: "predictions for them"}, {Topic: t.Statistics,
			What: "samples of them, and rows of small updates"}, {Topic: t.Weights, What: "weights that had learnt from them"},
		{Topic: t.Quarantine, What: "messages that could not be used"},
		{Topic: t.Predictions, What: "predictions for rows, if score is used"},
		{Topic: answers, What: "answers of serve"}, {Topic: t.Origins, What: "keys of messages of the rows"},
		{Topic: o.FromTopic, What: "the messages of the rows"}, {Topic: o.Outcome.Topic, What: "outcomes"},
	} {
		if s.Topic == "" {
			continue
		}
		config, _, err := configOf(ctx, p, s.Topic)
		if err != nil {
			return nil, err
		}
		if config == nil {
			continue
		}
		if r := topics.RetentionOf(config); r.Time > 0 {
			ms, _ := topics.Limit(config["segment.ms"]) // messages are deleted by segment
			s.Until = now.Add(r.Time + time.Duration(ms)*time.Millisecond)
		}
		stays = append(stays, s)
	}
	if files := o.Archive.Files; files != "" {
		stays = append(stays, Stay{Files: files, What: "the messages of the rows in this archive"})
	}
	return stays, nil
}
