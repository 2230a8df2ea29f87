package protocol

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// Ledger is the state of the plans topic: the runs in the order of their plans, with their ends, the versions, and the sources on
// the examples topic. It is a function of the last message of each key, so compaction of the topic does not change it.
// [Client.ReadLedger] reads a ledger; [Ledger.Add] applies later messages. A ledger is not safe for concurrent use.
type Ledger struct {
	// Next is the offset after the last applied message.
	Next int64

	topic   string
	last    coverage.Mark    // of the last applied message
	lines   map[string]*line // by key: the messages on the topic that have no tombstone
	order   []*line          // the same in topic order, together with replaced lines
	earlier map[string]*line // lines that the process decoded before: see [Client.RereadLedger]
	damaged []error          // why messages were skipped
	owned   bool             // no other ledger has the state
	plans   wire.Documents   // incomplete ones
	ledgerState
}

// line is the last message of a key. A line that another ledger may share does not change.
type line struct {
	Message
	known bool // the message was decoded, or is damaged
	value any  // decoded; nil: the message is damaged, of another kind, or a chunk of a plan that another message completes
}

// submitted is the decoded value of a plan.
type submitted struct {
	plan *schemas.Plan
	run  string
}

// ledgerState is the state derived from the lines of a ledger. A state that another ledger may share does not change.
type ledgerState struct {
	runs      map[string]*run
	planned   []*run      // the runs with plans, in their order
	chained   *ChainedRun // run of the last plan of a chain that counts; nil: there is none
	seals     []*schemas.SourceSeal
	gone      []*schemas.SourceSeal // of removed sources, in order of removal
	lacking   map[string]bool       // names of sources found to lack messages
	divisions []*schemas.Division   // of topics that ingest follows: the last attempt of each
	versions  []schemas.Place       // by number
	removed   map[int]string        // runs of removed versions, by version number
	highest   int                   // highest version number, removed versions included
	pinned    string                // run of the last pin; "": none is pinned
}

// run is the state of a run on the topic.
type run struct {
	id        string
	plan      *schemas.Plan // with its start offsets; nil: the topic has none
	offset    int64         // of the last chunk of the plan
	end       *schemas.End  // nil: none counts
	changed   time.Time     // timestamp of its first end, or else of its plan
	overtaken bool          // it does not count, and has no end on the topic: see applyChained
}

// Report reports to the recorder which messages were skipped, and why.
func (l *Ledger) Report(rec event.Recorder) {
	for _, err := range l.damaged {
		event.Skip(rec, "plans", err)
	}
}

// Add applies the next message of the topic. If the error wraps [wire.ErrDamaged], the message is damaged, and changes
// only Next.
func (l *Ledger) Add(m Message) error {
	known := len(l.damaged)
	if added := l.set(m); added && l.owned {
		l.apply(l.lines[m.Key])
	} else {
		l.fold()
	}
	if len(l.damaged) > known {
		return l.damaged[known]
	}
	return nil
}

// set makes a message the last one of its key, and reports whether it is the first one. A plan or an end that was written twice keeps
// its first place.
func (l *Ledger) set(m Message) (added bool) {
	m = m.Own()
	l.Next, l.last = m.Offset+1, MarkOf(0, m)
	before, kind := l.lines[m.Key], m.Kind()
	switch {
	case m.Value != nil:
		if before == nil || kind != schemas.KindPlan && kind != schemas.KindEnd || !bytes.Equal(before.Value, m.Value) {
			next := &line{Message: m}
			if old := l.earlier[m.Key]; old != nil && old.value != nil && bytes.Equal(old.Value, m.Value) {
				next.value, next.known = old.value, true
			}
			l.lines[m.Key], l.order = next, append(l.order, next)
		}
		return before == nil
	case before != nil && before.Kind() == schemas.KindPlan: // a plan that lacks a chunk does not count
		for i, other := range l.order {
			if other.Run() == before.Run() && other.Kind() == schemas.KindPlan && l.lines[other.Key] == other {
				l.order[i] = &line{Message: other.Message}
				l.lines[other.Key] = l.order[i]
			}
		}
	}
	delete(l.lines, m.Key)
	return false
}

// fold derives the state from the lines.
func (l *Ledger) fold() {
	l.ledgerState = ledgerState{runs: map[string]*run{}, lacking: map[string]bool{}, removed: map[int]string{}}
	l.owned, l.plans = true, wire.Documents{}
	l.order = slices.DeleteFunc(slices.Clone(l.order), func(m *line) bool { return l.lines[m.Key] != m })
	for _, m := range l.order {
		l.apply(m)
	}
}

// apply adds the next line to the state.
func (l *Ledger) apply(m *line) {
	if !m.known {
		value, known, err := l.decode(m.Message.Message)
		if err != nil {
			l.damaged = append(slices.Clip(l.damaged), fmt.Errorf("%s[0]@%d: %w", l.topic, m.Offset, err))
		}
		if known { // else another ledger may share the line
			m.value, m.known = value, true
		}
	}
	switch v := m.value.(type) {
	case submitted:
		l.applyPlan(v, m)
	case *schemas.End:
		l.applyEnd(v, m.Time)
	case *schemas.SourceSeal:
		l.seals = append(l.seals, v)
	case *schemas.SourceRemoval:
		l.gone = append(l.gone, &v.Seal)
	case *schemas.Division:
		at := slices.IndexFunc(l.divisions, func(known *schemas.Division) bool { return known.Topic == v.Topic })
		switch {
		case at < 0:
			l.divisions = append(l.divisions, v)
		case l.divisions[at].Attempt < v.Attempt:
			l.divisions[at] = v
		}
	case *schemas.Removal:
		l.removed[v.Version] = v.Run
		l.versions = slices.DeleteFunc(slices.Clone(l.versions), func(p schemas.Place) bool { return p.Run == v.Run })
	case *schemas.Pin:
		l.pinned = v.Run
	}
}

// decode decodes a message of the plans topic. The value is nil if the message is of another kind, or damaged. A plan is the value
// of its last chunk: known is false if other chunks are missing.
func (l *Ledger) decode(m wire.Message) (value any, known bool, err error) {
	switch m.Kind() {
	case schemas.KindPlan:
		whole, ok, err := l.plans.Add(m)
		if err != nil || !ok {
			return nil, err != nil, err
		}
		plan, run, err := DecodePlan(whole)
		if err != nil {
			return nil, true, err
		}
		return submitted{plan, run}, true, nil
	case schemas.KindEnd:
		return decoded[schemas.End](m)
	case schemas.KindSource:
		return decoded[schemas.SourceSeal](m)
	case schemas.KindSourceRemoval:
		return decoded[schemas.SourceRemoval](m)
	case schemas.KindDivision:
		return decoded[schemas.Division](m)
	case schemas.KindRemoval:
		return decoded[schemas.Removal](m)
	case schemas.KindPin:
		return decoded[schemas.Pin](m)
	}
	return nil, true, nil
}

func decoded[T schemas.JSON](m wire.Message) (any, bool, error) {
	value, err := schemas.DecodeJSON[T](m)
	if err != nil {
		return nil, true, err
	}
	return value, true, nil
}

// ReadLedger returns the current state of the plans topic. A process reads the topic once, and then only later messages,
// as long as the topic still has the last message that was read. ReadLedger skips damaged messages: see [Ledger.Report].
func (c *Client) ReadLedger(ctx context.Context) (*Ledger, error) {
	if c.ledger != nil && c.ledger.Load() != nil {
		l := *c.ledger.Load()
		if there, err := c.readPlans(ctx, &l); err != nil || there {
			return &l, err
		}
	}
	return c.RereadLedger(ctx)
}

// RereadLedger is [Client.ReadLedger] for a role that has waited long for a message. It reads the whole topic: if a client wrote a plan
// twice, compaction may have changed the order of the waiting runs.
func (c *Client) RereadLedger(ctx context.Context) (*Ledger, error) {
	l := &Ledger{topic: c.Topics.Plans}
	if c.ledger != nil && c.ledger.Load() != nil {
		l.earlier = c.ledger.Load().lines
	}
	_, err := c.readPlans(ctx, l)
	return l, err
}

// readPlans applies the messages of the plans topic after those that the ledger has. It returns false if the topic lacks the last
// message of the ledger: the topic was recreated, or has lost messages.
func (c *Client) readPlans(ctx context.Context, l *Ledger) (there bool, err error) {
	last, first := l.last, l.lines == nil
	from, end, err := c.Log.Bounds(ctx, l.topic, 0)
	if there = first; first {
		l.lines = map[string]*line{}
	} else {
		l.lines, l.order, l.owned, from = maps.Clone(l.lines), slices.Clone(l.order), false, max(from, last.Offset)
	}
	if err != nil {
		return false, fmt.Errorf("read plans: %w", err)
	}
	messages := 0
	for m, err := range c.Between(ctx, l.topic, 0, from, end) {
		if err != nil {
			return false, fmt.Errorf("read plans: %w", err)
		}
		if messages++; messages == 1 && !first {
			there = MarkOf(0, m) == last
		} else if there {
			l.set(m)
		}
	}
	if l.Next = end; first || there && messages > 1 {
		l.fold()
		l.earlier = nil
		if c.ledger != nil {
			known := *l
			known.lines, known.order = maps.Clone(l.lines), slices.Clone(l.order)
			l.owned = false
			c.ledger.Store(&known)
		}
	}
	return there, nil
}

// Division returns the division of a topic in an ingest attempt; nil if it is not recorded.
func (l *Ledger) Division(topic string, attempt int) *schemas.Division {
	for _, d := range l.divisions {
		if d.Topic == topic && d.Attempt == attempt {
			return d
		}
	}
	return nil
}

// Sources returns the ids of the sealed sources, in the order of their first valid seals.
func (l *Ledger) Sources() iter.Seq[string] {
	var ids []string
	for _, s := range l.seals {
		if !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return slices.Values(ids)
}

// Seals returns the valid seals of a source, in topic order. A source that was ingested again may have several.
func (l *Ledger) Seals(source string) (seals []*schemas.SourceSeal) {
	for _, s := range l.seals {
		if s.ID == source {
			seals = append(seals, s)
		}
	}
	return seals
}

// Removed returns the seals of the sources that were removed and not ingested again, in order of removal.
func (l *Ledger) Removed() []*schemas.SourceSeal { return l.gone }

// SourceChanged returns when the source of a seal was sealed or removed last, by the clock of the writer.
func (l *Ledger) SourceChanged(seal *schemas.SourceSeal) (t time.Time) {
	if m := l.lines[seal.Message().Key]; m != nil {
		t = m.Time
	}
	return t
}

// Sealed reports whether the named source is sealed or was removed, so that nothing may be added to it.
func (l *Ledger) Sealed(source string) bool {
	named := func(s *schemas.SourceSeal) bool { return s.Name() == source }
	return slices.ContainsFunc(l.seals, named) || slices.ContainsFunc(l.gone, named)
}

// Incomplete reports whether a run has found that the named sealed source lacks messages.
func (l *Ledger) Incomplete(source string) bool { return l.lacking[source] }

// DecodePlan decodes a valid plan, and returns it with its run id.
func DecodePlan(m wire.Message) (p *schemas.Plan, run string, err error) {
	if p, err = schemas.DecodeJSON[schemas.Plan](m); err == nil {
		err = checkPlan(p)
	}
	if err != nil {
		return nil, "", err
	}
	return p, p.Run(), nil
}

// DecodeManifest decodes a manifest with a valid plan.
func DecodeManifest(m wire.Message) (*schemas.Manifest, error) {
	manifest, err := schemas.DecodeJSON[schemas.Manifest](m)
	if err == nil {
		err = checkPlan(manifest.Plan)
	}
	return manifest, err
}

// CheckPlan returns an error for a plan that [DecodePlan] would reject, so that no role would process its run. The error
// for too many segments is a *[schemas.SegmentsError].
func CheckPlan(p *schemas.Plan) error {
	if err := p.Check(); err != nil {
		return err
	}
	return checkPlan(p)
}

// checkPlan returns an error if a plan is invalid. The roles rely on its options.
func checkPlan(p *schemas.Plan) error {
	if err := model.CheckPlan(p); err != nil {
		return err
	}
	for _, s := range p.Stages {
		if problems := solve.Check(s); len(problems) > 0 {
			return fmt.Errorf("%w: plan: %w", wire.ErrDamaged, problems[0])
		}
	}
	return nil
}
