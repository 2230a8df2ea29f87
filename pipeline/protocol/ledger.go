package protocol

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol/codec"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Ledger is the state of the plans topic: the unfinished runs, in the order of their plans; the ends of others; the versions;
// and the sources that are on the examples topic. [Client.ReadLedger] reads a ledger, and [Ledger.Add] adds what comes after it. A
// ledger belongs to one goroutine.
type Ledger struct {
	// Next is the offset after the last message that was read.
	Next int64

	codec         codec.Codec
	topic         string
	documents     wire.Documents
	first         map[wire.Digest]int64 // where the plans begin that are not complete yet
	plans         []submitted           // the first of each run
	ends          map[string]*schemas.End
	sources       []string // that have seals, in the order of their first
	seals         map[string][]*schemas.SourceSeal
	removedSeals  []*schemas.SourceSeal // of sources that were removed, in the order of the removals
	divisions     []schemas.Division    // of topics that ingest follows: of each the one of the last attempt
	incomplete    map[string]bool       // names of sources that a run found to lack messages
	versions      []schemas.Place       // by number
	removed       map[string]bool       // runs whose versions were removed
	passedOver    map[string]bool       // runs whose versions are not whole: see PassOver
	highest       int                   // the highest number of a version, removed or not
	pinned        string                // the run of the last pin; "": none is pinned
	completeTo    int                   // versions up to this number that are not in versions were removed
	swept         int64                 // see schemas.Ledger
	versionsSwept int64                 // see schemas.Ledger
	damaged       []error               // why messages were skipped

	covered   int64               // a ledger on the topic covers what comes before this offset, but for the ends of runs
	chained   *schemas.ChainedRun // whose plan counted last; nil: there is none
	overtaken map[string]bool     // runs of a chain that do not count, and have no end on the topic: see takeChained
	uncertain map[string]bool     // runs whose ends may be before covered: see Ledger.Uncertain
	written   int                 // messages since the latest ledger on the topic
	bytes     int64               // of them
	snapshot  int64               // bytes of that ledger
}

// submitted is a plan on the topic.
type submitted struct {
	*schemas.Plan               // from when it began; once it has ended, as it is on the topic
	written       *schemas.Plan // as it is on the topic
	place         schemas.Place
}

func (c *Client) newLedger() *Ledger {
	return &Ledger{
		codec: c.Codec, topic: c.Topics.Plans, first: map[wire.Digest]int64{}, ends: map[string]*schemas.End{},
		seals: map[string][]*schemas.SourceSeal{}, incomplete: map[string]bool{}, removed: map[string]bool{},
		uncertain: map[string]bool{}, overtaken: map[string]bool{}, passedOver: map[string]bool{},
	}
}

// ReadLedger reads what counts on the plans topic now: the latest ledger on it, and what comes after. However long the history is,
// it reads the same. Of the runs that ended before that ledger it knows only the versions: see [Client.ReadHistory]. It skips
// damaged messages: see [Ledger.Report].
func (c *Client) ReadLedger(ctx context.Context) (*Ledger, error) {
	l, err := c.readLedger(ctx)
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	return l, nil
}

func (c *Client) readLedger(ctx context.Context) (*Ledger, error) {
	first, end, err := c.Log.Bounds(ctx, c.Topics.Plans, 0)
	if err != nil {
		return nil, err
	}
	// The latest ledger is usually among the last messages, with tombstones after it.
	for window := int64(4 * c.ledgerMessages()); ; window *= 8 {
		from := max(first, end-window)
		var messages []Message
		err := c.Between(ctx, c.Topics.Plans, 0, from, end, func(m Message) error {
			messages = append(messages, m)
			return nil
		})
		if err != nil {
			return nil, err
		}
		latest := c.latestLedger(messages)
		if latest == nil && from > first {
			continue
		}
		l := c.newLedger()
		if latest != nil {
			if err := c.restore(ctx, l, latest, from); err != nil {
				return nil, err
			}
		}
		for _, m := range messages {
			if latest == nil || m.Offset >= latest.Before {
				l.fold(m)
			}
		}
		l.Next = end
		if latest != nil {
			if err := c.findEnds(ctx, l); err != nil {
				return nil, err
			}
		}
		return l, nil
	}
}

// findEnds finds the ends of runs whose plans are on the topic twice. A client writes again if it got no answer, and by then the run
// may have ended, and a ledger may cover its end.
func (c *Client) findEnds(ctx context.Context, l *Ledger) error {
	for _, run := range slices.Sorted(maps.Keys(l.uncertain)) {
		err := c.Remaining(ctx, l.topic, 0, l.Plan(run).Since.Plans, l.covered, func(m Message) error {
			if end := EndOf(m.Message); end != nil && end.Run == run {
				if known := l.ends[run]; known != nil && !l.overtaken[run] && !outranks(end.State, known.State) {
					return nil
				}
				l.ends[run] = end
				delete(l.overtaken, run)
				l.plans[l.index(run)].Plan = l.plans[l.index(run)].written
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	clear(l.uncertain)
	return nil
}

// latestLedger returns the ledger among the messages that is complete last; nil if there is none. A ledger that covers what comes after
// itself is none: its writer had read messages that an unclean election of a leader has lost since.
func (c *Client) latestLedger(messages []Message) *schemas.Ledger {
	type written struct {
		wire.Message
		offset, before int64
	}
	var all []written
	var documents wire.Documents
	for _, m := range messages {
		if m.Kind() != schemas.KindLedger || m.Value == nil {
			continue
		}
		whole, ok, err := c.Codec.Document(&documents, m.Message)
		if err != nil || !ok {
			continue
		}
		if before, err := schemas.LedgerBefore(whole); err == nil {
			all = append(all, written{whole, m.Offset, before})
		}
	}
	slices.SortStableFunc(all, func(a, b written) int { return cmp.Compare(a.before, b.before) })
	for _, w := range slices.Backward(all) { // of many only the latest is decoded whole
		if l, err := codec.DecodeJSON[schemas.Ledger](c.Codec, w.Message); err == nil && l.Before <= w.offset {
			return l
		}
	}
	return nil
}

// restore makes l what a ledger on the topic says, and adds the messages that come after what that covers and before an offset.
func (c *Client) restore(ctx context.Context, l *Ledger, s *schemas.Ledger, before int64) error {
	for i := range s.Sources {
		l.addSeal(&s.Sources[i])
	}
	for i := range s.Removed {
		l.removeSource(&s.Removed[i])
	}
	for _, name := range s.Incomplete {
		l.incomplete[name] = true
	}
	l.divisions = s.Divisions
	l.versions, l.highest, l.completeTo, l.pinned, l.swept, l.versionsSwept = s.Versions, s.Highest, s.Highest, s.Pinned, s.Swept,
		s.VersionsSwept
	for _, place := range s.Unfinished {
		// If the plan was written twice, compaction keeps the second copy, wherever it is.
		for _, to := range []int64{place.To, math.MaxInt64} {
			if l.index(place.Run) >= 0 {
				break
			}
			if err := c.readPlan(ctx, l, place.Run, place.From, to); err != nil {
				return err
			}
		}
		if i := l.index(place.Run); i >= 0 && place.Since != nil {
			l.setSince(i, *place.Since)
		}
	}
	l.chained = s.Chained
	l.written, l.bytes, l.Next, l.covered = 0, 0, s.Before, s.Before
	if s.Before >= before {
		return nil
	}
	return c.Remaining(ctx, c.Topics.Plans, 0, s.Before, before, func(m Message) error {
		l.fold(m)
		return nil
	})
}

// readPlan adds the plan of a run, in a range of offsets.
func (c *Client) readPlan(ctx context.Context, l *Ledger, run string, from, to int64) error {
	return c.Remaining(ctx, c.Topics.Plans, 0, from, to, func(m Message) error {
		if m.Kind() == schemas.KindPlan && m.Run() == run {
			l.fold(m)
		}
		return nil
	})
}

// ReadHistory returns a ledger that also knows all plans and ends of the past that the plans topic still has.
func (c *Client) ReadHistory(ctx context.Context) (*Ledger, error) {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	past := c.newLedger()
	err = c.Remaining(ctx, l.topic, 0, 0, l.Next, func(m Message) error {
		past.fold(m)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	for _, p := range past.plans { // plans of the past without an end are left out: their ends were removed
		if end := past.ends[p.place.Run]; end != nil && l.index(p.place.Run) < 0 {
			l.plans = append(l.plans, p)
			l.ends[p.place.Run] = end
		}
	}
	return l, nil
}

// fold adds a message, and remembers why it was skipped if it is damaged.
func (l *Ledger) fold(m Message) {
	if err := l.Add(m); err != nil {
		l.damaged = append(l.damaged, err)
	}
}

// Report tells the recorder which messages were skipped when the ledger was read, and why.
func (l *Ledger) Report(rec event.Recorder) {
	for _, err := range l.damaged {
		event.Skip(rec, "plans", err)
	}
}

// Add takes the next message of the topic. An error wraps [wire.ErrDamaged]: the message is damaged, and changes nothing but
// Next.
func (l *Ledger) Add(m Message) error {
	l.Next = m.Offset + 1
	if m.Value != nil && m.Kind() != schemas.KindLedger {
		l.written++
		l.bytes += int64(len(m.Value))
	}
	if err := l.take(m); err != nil {
		return fmt.Errorf("%s[0]@%d: %w", l.topic, m.Offset, err)
	}
	return nil
}

func (l *Ledger) take(m Message) error {
	if m.Value == nil { // a tombstone
		return nil
	}
	switch m.Kind() {
	case schemas.KindPlan:
		return l.takePlan(m)
	case schemas.KindEnd:
		end, err := codec.DecodeJSON[schemas.End](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.takeEnd(end)
	case schemas.KindSource:
		seal, err := codec.DecodeJSON[schemas.SourceSeal](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.addSeal(seal)
	case schemas.KindSourceRemoval:
		removal, err := codec.DecodeJSON[schemas.SourceRemoval](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.removeSource(&removal.Seal)
	case schemas.KindDivision:
		division, err := codec.DecodeJSON[schemas.Division](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.addDivision(division)
	case schemas.KindRemoval:
		removal, err := codec.DecodeJSON[schemas.Removal](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.removed[removal.Run] = true
		l.versions = slices.DeleteFunc(slices.Clone(l.versions), func(p schemas.Place) bool { return p.Run == removal.Run })
	case schemas.KindPin:
		pin, err := codec.DecodeJSON[schemas.Pin](l.codec, m.Message)
		if err != nil {
			return err
		}
		l.pinned = pin.Run
	case schemas.KindLedger:
		if m.BeginsDocument() {
			l.snapshot = 0
		}
		l.snapshot += int64(len(m.Value))
	}
	return nil
}

func (l *Ledger) takePlan(m Message) error {
	if !m.IsChunk() {
		return nil // of a release that wrote each plan as one message: its runs are not continued
	}
	from, begun := l.first[m.Digest()]
	if !begun {
		from = m.Offset
		l.first[m.Digest()] = from
	}
	whole, ok, err := l.codec.Document(&l.documents, m.Message)
	if err != nil || !ok {
		return err
	}
	delete(l.first, m.Digest())
	plan, run, err := codec.DecodePlan(l.codec, whole)
	if err != nil {
		return err
	}
	if l.index(run) < 0 {
		l.plans = append(l.plans, submitted{plan, plan, schemas.Place{Run: run, From: from, To: m.Offset + 1}})
		if plan.Since.Plans < l.covered {
			l.uncertain[run] = true
		}
		if plan.Chain != nil {
			l.takeChained(run, plan.Chain)
		}
	}
	return nil
}

// takeChained decides whether a run of a chain counts. Of the plans with the same parent and attempt it is the first by offset: the others
// have ended for every reader of the topic, before anybody begins them. A runner that sees one writes its end, as compaction may put a
// second copy of the first plan behind it.
func (l *Ledger) takeChained(run string, chain *schemas.Chain) {
	if last := l.chained; last != nil && last.Run != run && !last.Before(chain) {
		if l.ends[run] == nil { // else compaction has left a copy of its plan behind its end
			reason := fmt.Sprintf("run %s was submitted before it, to make version %d of the chain in attempt %d", last.Run, last.Number,
				last.Attempt)
			l.ends[run], l.overtaken[run] = &schemas.End{Run: run, State: schemas.Cancelled, Reason: reason}, true
		}
		return
	}
	l.chained = &schemas.ChainedRun{Run: run, Number: chain.Number, Attempt: chain.Attempt}
	if chain.Parent != nil {
		l.chained.Parent = chain.Parent.Run
	}
}

func (l *Ledger) takeEnd(end *schemas.End) {
	if end.Source != "" {
		id, _, _ := strings.Cut(end.Source, "/")
		l.seals[id] = without(l.seals[id], end.Source)
		l.removedSeals = without(l.removedSeals, end.Source)
		l.incomplete[end.Source] = true
	}
	if end = l.unlessTaken(end); end.Version != nil {
		l.addVersion(*end.Version)
	}
	known := l.ends[end.Run]
	if known == nil || outranks(end.State, known.State) {
		l.ends[end.Run] = end
	}
	delete(l.overtaken, end.Run)
	at := l.index(end.Run)
	if at < 0 {
		return
	}
	l.plans[at].Plan = l.plans[at].written // copies of a plan and its end may come before and after the end of a later run
	if known != nil {
		return
	}
	// The runs after it have not begun. Their records come after what is on the topics now.
	for i := at + 1; i < len(l.plans); i++ {
		if l.ends[l.plans[i].place.Run] != nil {
			continue
		}
		since := end.Since
		since.Plans = l.plans[i].Since.Plans
		l.setSince(i, since)
	}
}

// setSince says where the run of a plan begins to read.
func (l *Ledger) setSince(i int, since schemas.Since) {
	plan := *l.plans[i].Plan
	plan.Since = since
	l.plans[i].Plan = &plan
}

// unlessTaken returns an end, or, if another run has made the version of its number, a cancellation in its place.
func (l *Ledger) unlessTaken(end *schemas.End) *schemas.End {
	if end.Version == nil {
		return end
	}
	if at, taken := l.version(end.Version.Version); !taken || l.versions[at].Run == end.Version.Run {
		return end
	}
	cancelled := *end
	cancelled.State, cancelled.Version, cancelled.Reason = schemas.Cancelled, nil, "another run has made the version with that number"
	return &cancelled
}

// version returns the index in versions of a version, given its number, or where it would be.
func (l *Ledger) version(number int) (at int, there bool) {
	return slices.BinarySearchFunc(l.versions, number, func(p schemas.Place, n int) int { return cmp.Compare(p.Version, n) })
}

// addVersion adds a version whose number is free, or that run's own.
func (l *Ledger) addVersion(place schemas.Place) {
	at, there := l.version(place.Version)
	l.highest = max(l.highest, place.Version)
	if !there && !l.removed[place.Run] && place.Version > l.completeTo {
		l.versions = slices.Insert(slices.Clone(l.versions), at, place)
	}
}

// addSeal makes a seal count, as the last. Compaction keeps the last copy of a seal that was written twice, so the earlier one goes.
func (l *Ledger) addSeal(seal *schemas.SourceSeal) {
	l.dropSeal(seal)
	if _, known := l.seals[seal.ID]; !known {
		l.sources = append(l.sources, seal.ID)
	}
	l.seals[seal.ID] = append(l.seals[seal.ID], seal)
}

// addDivision makes a division count, unless another one of its attempt or of a later one came before it.
func (l *Ledger) addDivision(d *schemas.Division) {
	at := slices.IndexFunc(l.divisions, func(known schemas.Division) bool { return known.Topic == d.Topic })
	switch {
	case at < 0:
		l.divisions = append(slices.Clip(l.divisions), *d)
	case l.divisions[at].Attempt < d.Attempt:
		l.divisions = slices.Clone(l.divisions)
		l.divisions[at] = *d
	}
}

// Division returns the number of examples partitions of a topic in an attempt to read it; 0 if it is not recorded.
func (l *Ledger) Division(topic string, attempt int) (partitions int) {
	for _, d := range l.divisions {
		if d.Topic == topic && d.Attempt == attempt {
			return d.Partitions
		}
	}
	return 0
}

// removeSource makes a seal count no more.
func (l *Ledger) removeSource(seal *schemas.SourceSeal) {
	l.dropSeal(seal)
	l.removedSeals = append(l.removedSeals, seal)
}

// dropSeal forgets the seals and removals of the name that a seal has, and their source if it has no other seal.
func (l *Ledger) dropSeal(seal *schemas.SourceSeal) {
	id, name := seal.ID, seal.Name()
	l.removedSeals = without(l.removedSeals, name)
	if _, known := l.seals[id]; !known {
		return
	}
	if l.seals[id] = without(l.seals[id], name); len(l.seals[id]) == 0 {
		delete(l.seals, id)
		l.sources = slices.DeleteFunc(l.sources, func(source string) bool { return source == id })
	}
}

// without removes the seals of a name from a list.
func without(seals []*schemas.SourceSeal, name string) []*schemas.SourceSeal {
	return slices.DeleteFunc(seals, func(s *schemas.SourceSeal) bool { return s.Name() == name })
}

// outranks reports whether an end in state a replaces an end in state b of the same run. Their order on the topic does not
// matter, as compaction keeps the later copy of a message that was written twice. A version that exists stays, since somebody
// may use it.
func outranks(a, b string) bool {
	rank := []string{schemas.Failed, schemas.Cancelled, schemas.Done}
	return slices.Index(rank, a) > slices.Index(rank, b)
}

// EndOf returns the end in a message; nil if the message is of another kind, or damaged.
func EndOf(m wire.Message) *schemas.End {
	if m.Kind() != schemas.KindEnd {
		return nil
	}
	end, err := schemas.DecodeJSON[schemas.End](m)
	if err != nil {
		return nil
	}
	return end
}

// Ends reports whether a message ends a run.
func Ends(m wire.Message, run string) bool {
	return m.Run() == run && EndOf(m) != nil
}

// index returns the index of a run's plan; −1 if there is none.
func (l *Ledger) index(run string) int {
	return slices.IndexFunc(l.plans, func(p submitted) bool { return p.place.Run == run })
}

// Long reports whether the ledger has so much of the past that it should be read again. It has all that was added to it.
func (l *Ledger) Long() bool { return len(l.ends) > maxEnds }

// maxEnds is how many ends of runs a process keeps in memory.
const maxEnds = 100

// Plan returns the plan of a run, given the run's id; nil if there is none.
func (l *Ledger) Plan(run string) *schemas.Plan {
	if i := l.index(run); i >= 0 {
		return l.plans[i].Plan
	}
	return nil
}

// GoesOn reports whether a run was submitted and has not ended.
func (l *Ledger) GoesOn(run string) bool { return l.index(run) >= 0 && l.ends[run] == nil }

// Uncertain reports whether a run that has no end here may have ended all the same: its plan was added, and is from a time that the
// ledger knows only in summary. It may be the second copy of a plan, of a client that got no answer to the first.
// [Client.ReadLedger] finds out.
func (l *Ledger) Uncertain(run string) bool { return l.uncertain[run] }

// GoesOn reports whether it is a run's turn: it was submitted, no run before it goes on, it has not ended, and it begins to read where
// its plan says. A role that has waited for long without a message asks: after an unclean election of a leader, the
// message that it waits for may have an offset that it has read already, or the run's plan may be gone, or the end of
// the run before it, which has said where this one begins. Roles of which one works on another run, or reads from
// another place, would wait for each other for ever.
func (c *Client) GoesOn(ctx context.Context, run string, since schemas.Since) (bool, error) {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return false, err
	}
	for id, plan := range l.Unfinished() {
		return id == run && plan.Since.Weights == since.Weights && slices.Equal(plan.Since.Statistics, since.Statistics), nil
	}
	return false, nil
}

// End returns the end of a run; nil while it is unfinished, or if it ended too long ago.
func (l *Ledger) End(run string) *schemas.End { return l.ends[run] }

// Counting returns the end that counts of a run that may have several, given one of them, which may be from a time that the ledger knows
// only in summary. A solver that had not read that the run was cancelled may have finished it, or another run may have made the version
// of the same number.
func (l *Ledger) Counting(end *schemas.End) *schemas.End {
	end = l.unlessTaken(end)
	if known := l.ends[end.Run]; known != nil && outranks(known.State, end.State) {
		return known
	}
	return end
}

// Unfinished returns the ids and the plans of the runs without an end, in the order of their plans.
func (l *Ledger) Unfinished() iter.Seq2[string, *schemas.Plan] {
	return func(yield func(string, *schemas.Plan) bool) {
		for _, p := range l.plans {
			if l.ends[p.place.Run] == nil && !yield(p.place.Run, p.Plan) {
				return
			}
		}
	}
}

// Runs returns the runs whose plans the ledger knows, and their plans: those that it knows from the history only come last.
func (l *Ledger) Runs() iter.Seq2[string, *schemas.Plan] {
	return func(yield func(string, *schemas.Plan) bool) {
		for _, p := range l.plans {
			if !yield(p.place.Run, p.Plan) {
				return
			}
		}
	}
}

// Chained returns the run of a chain whose plan counted last, ended or not; nil if there is none.
func (l *Ledger) Chained() *schemas.ChainedRun { return l.chained }

// Overtaken returns how the runs of a chain end that do not count because others came before them, if their ends are not on the topic. The
// caller writes them.
func (l *Ledger) Overtaken() (ends []*schemas.End) {
	for _, p := range l.plans {
		if l.overtaken[p.place.Run] {
			ends = append(ends, l.ends[p.place.Run])
		}
	}
	return ends
}

// Versions returns the places of the versions that were not removed, by their numbers.
func (l *Ledger) Versions() []schemas.Place { return l.versions }

// PassOver excludes a version from being the pinned, the offered or the latest one, because this reader found
// a part of it gone or damaged. Other readers of the topic are not affected.
func (l *Ledger) PassOver(version schemas.Place) { l.passedOver[version.Run] = true }

// Offered returns the place of the version with the highest number that is neither withheld nor passed over; nil if there
// is none. Subscribers get it as the latest while none is pinned.
func (l *Ledger) Offered() *schemas.Place {
	for i := len(l.versions) - 1; i >= 0; i-- {
		if !l.versions[i].Withheld && !l.passedOver[l.versions[i].Run] {
			return &l.versions[i]
		}
	}
	return nil
}

// Pinned returns the place of the pinned version; nil if none is. The pin of a removed version does not count.
func (l *Ledger) Pinned() *schemas.Place {
	if at := slices.IndexFunc(l.versions, func(p schemas.Place) bool { return p.Run == l.pinned }); at >= 0 && !l.passedOver[l.pinned] {
		return &l.versions[at]
	}
	return nil
}

// Latest returns the place of the version that subscribers get as [Latest]: the pinned version, or else the offered one; nil if
// there is none.
func (l *Ledger) Latest() *schemas.Place {
	if p := l.Pinned(); p != nil {
		return p
	}
	return l.Offered()
}

// ForSubscribers reports whether subscribers get a version as the latest, or would if none were pinned.
func (l *Ledger) ForSubscribers(version schemas.Place) bool {
	return slices.ContainsFunc([]*schemas.Place{l.Pinned(), l.Offered()}, func(p *schemas.Place) bool {
		return p != nil &&
			p.Run == version.Run
	})
}

// GoneOnFrom reports whether the next run of a chain may continue from a version.
func (l *Ledger) GoneOnFrom(version schemas.Place) bool {
	return l.chained != nil && (version.Run == l.chained.Run || version.Run == l.chained.Parent)
}

// NamedBy returns the id of an unfinished run whose plan names a version: it starts from it, has it as its parent, or is compared with it
// by its gate. It returns "" if there is none.
func (l *Ledger) NamedBy(version schemas.Place) string {
	for run, plan := range l.Unfinished() {
		named := []*schemas.Warm{plan.Warm}
		if plan.Chain != nil {
			named = append(named, plan.Chain.Parent)
			if plan.Chain.Gate != nil {
				named = append(named, &plan.Chain.Gate.Offered)
			}
		}
		if slices.ContainsFunc(named, func(w *schemas.Warm) bool { return w != nil && w.Run == version.Run }) {
			return run
		}
	}
	return ""
}

// Find returns the place of a version, given its number, its run, or [Latest]. The error is a *[NoVersionError].
func (l *Ledger) Find(want string) (schemas.Place, error) {
	if want == Latest {
		if p := l.Latest(); p != nil {
			return *p, nil
		}
	}
	for _, p := range l.versions {
		if want == p.Run || want == strconv.Itoa(p.Version) {
			return p, nil
		}
	}
	return schemas.Place{}, &NoVersionError{want, len(l.versions)}
}

// NextVersion returns the number of the next version.
func (l *Ledger) NextVersion() int { return l.highest + 1 }

// Sources returns the ids of the sources that were sealed, in the order of their first seals that count.
func (l *Ledger) Sources() iter.Seq[string] { return slices.Values(l.sources) }

// Seals returns the seals of a source that count, in the order of the topic. A source that was ingested again may have several.
func (l *Ledger) Seals(source string) []*schemas.SourceSeal { return l.seals[source] }

// Removed returns the seals of the sources that were removed and not ingested again, in the order of their removals.
func (l *Ledger) Removed() []*schemas.SourceSeal { return l.removedSeals }

// Sealed reports whether a source, given by its name, is sealed or was removed: nothing is to be added to it.
func (l *Ledger) Sealed(source string) bool {
	id, _, _ := strings.Cut(source, "/")
	named := func(s *schemas.SourceSeal) bool { return s.Name() == source }
	return slices.ContainsFunc(l.seals[id], named) || slices.ContainsFunc(l.removedSeals, named)
}

// Incomplete reports whether a run has found that a sealed source, given by its name, lacks messages.
func (l *Ledger) Incomplete(source string) bool { return l.incomplete[source] }

// due reports whether a ledger should be written: if that many messages came after the last one, they are not smaller than it, and no
// plan is being written, whose first chunks the ledger would hide. A plan that nobody has completed for long stays incomplete.
func (l *Ledger) due(messages int) bool {
	for _, first := range l.first {
		if l.Next-first < int64(4*messages) {
			return false
		}
	}
	return l.written >= messages && l.bytes >= l.snapshot
}

// state returns what the ledger knows, but for how runs ended.
func (l *Ledger) state() *schemas.Ledger {
	s := &schemas.Ledger{Before: l.Next, Versions: l.versions, Highest: l.highest, Divisions: l.divisions, Chained: l.chained,
		Swept: l.swept, VersionsSwept: l.versionsSwept}
	if p := l.Pinned(); p != nil {
		s.Pinned = p.Run
	}
	for _, p := range l.plans {
		if l.ends[p.place.Run] == nil {
			place := p.place
			place.Since = &p.Plan.Since
			s.Unfinished = append(s.Unfinished, place)
		}
	}
	for _, id := range l.sources {
		for _, seal := range l.seals[id] {
			s.Sources = append(s.Sources, *seal)
		}
	}
	for _, seal := range l.removedSeals {
		s.Removed = append(s.Removed, *seal)
	}
	for name := range l.incomplete {
		s.Incomplete = append(s.Incomplete, name)
	}
	slices.Sort(s.Incomplete)
	return s
}
