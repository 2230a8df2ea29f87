package run

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// Ledger is what the plans topic says: the runs in the order of their plans, how they ended, and the sources that are on the
// examples topic. [Client.ReadLedger] reads a ledger, and [Ledger.Add] adds what comes after it. A ledger belongs to one
// goroutine.
type Ledger struct {
	// Next is the offset after the last message that was read.
	Next int64

	codec      Codec
	topic      string
	sources    []string // that have seals, in the order of their first
	seals      map[string][]*schemas.SourceSeal
	incomplete map[string]bool // names of sources that a run found to lack messages
	plans      []*schemas.Plan // the first of each run
	runs       []string        // of plans
	ends       map[string]*schemas.End
	damaged    []error // why messages were skipped
}

// ReadLedger reads all that the plans topic has now. It skips damaged messages: see [Ledger.Report].
func (c *Client) ReadLedger(ctx context.Context) (*Ledger, error) {
	l := &Ledger{codec: c.Codec, topic: c.Topics.Plans, seals: map[string][]*schemas.SourceSeal{}, incomplete: map[string]bool{}, ends: map[string]*schemas.End{}}
	first, end, err := c.Log.Bounds(ctx, l.topic, 0)
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	err = c.Between(ctx, l.topic, 0, first, end, func(m Message) error {
		if err := l.Add(m); err != nil {
			l.damaged = append(l.damaged, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	l.Next = end
	return l, nil
}

// Report tells the recorder which messages were skipped when the ledger was read, and why.
func (l *Ledger) Report(rec event.Recorder) {
	for _, err := range l.damaged {
		event.Skip(rec, "plans", err)
	}
}

// Add takes the next message of the topic. An error wraps [schemas.ErrDamaged]: the message is damaged, and changes nothing but
// Next.
func (l *Ledger) Add(m Message) error {
	l.Next = m.Offset + 1
	if err := l.take(m.Message); err != nil {
		return fmt.Errorf("%s[0]@%d: %w", l.topic, m.Offset, err)
	}
	return nil
}

func (l *Ledger) take(m schemas.Message) error {
	if m.Value == nil { // a tombstone
		return nil
	}
	switch m.Kind() {
	case schemas.KindPlan:
		plan, run, err := l.codec.DecodePlan(m)
		if err != nil {
			return err
		}
		if !slices.Contains(l.runs, run) {
			l.plans, l.runs = append(l.plans, plan), append(l.runs, run)
		}
	case schemas.KindEnd:
		end, err := schemas.DecodeJSON[schemas.End](m)
		if err != nil {
			return err
		}
		if end.Source != "" {
			id, _, _ := strings.Cut(end.Source, "/")
			l.seals[id] = slices.DeleteFunc(l.seals[id], func(s *schemas.SourceSeal) bool { return s.Name() == end.Source })
			l.incomplete[end.Source] = true
		}
		if known := l.ends[end.Run]; known == nil || outranks(end.State, known.State) {
			l.ends[end.Run] = end
		}
	case schemas.KindSource:
		seal, err := schemas.DecodeJSON[schemas.SourceSeal](m)
		if err != nil {
			return err
		}
		if len(l.seals[seal.ID]) == 0 {
			l.sources = append(l.sources, seal.ID)
		}
		l.seals[seal.ID] = append(l.seals[seal.ID], seal)
	}
	return nil
}

// outranks reports whether an end in state a replaces an end in state b of the same run. Their order on the topic does not
// matter, as compaction keeps the later copy of a message that was written twice. A version that exists stays, since somebody
// may use it.
func outranks(a, b string) bool {
	rank := []string{schemas.Failed, schemas.Cancelled, schemas.Done}
	return slices.Index(rank, a) > slices.Index(rank, b)
}

// EndOf returns the end that a message says; nil if the message is of another kind, or damaged.
func EndOf(m schemas.Message) *schemas.End {
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
func Ends(m schemas.Message, run string) bool {
	return m.Run() == run && EndOf(m) != nil
}

// Plan returns the plan of a run, given the run's id; nil if there is none.
func (l *Ledger) Plan(run string) *schemas.Plan {
	if i := slices.Index(l.runs, run); i >= 0 {
		return l.plans[i]
	}
	return nil
}

// Run returns the id of the run of one of the ledger's plans.
func (l *Ledger) Run(p *schemas.Plan) string { return l.runs[slices.Index(l.plans, p)] }

// End returns how a run ended; nil while it goes on.
func (l *Ledger) End(run string) *schemas.End { return l.ends[run] }

// Unfinished returns the runs without an end, in the order of their plans.
func (l *Ledger) Unfinished() (plans []*schemas.Plan) {
	for i, p := range l.plans {
		if l.ends[l.runs[i]] == nil {
			plans = append(plans, p)
		}
	}
	return plans
}

// Ended returns how many runs with that content have ended. See [schemas.Plan.Content].
func (l *Ledger) Ended(content schemas.Digest) (n int) {
	for _, e := range l.ends {
		if e.Content == content {
			n++
		}
	}
	return n
}

// Sources returns the ids of the sources that were sealed, in the order of their first seals.
func (l *Ledger) Sources() iter.Seq[string] { return slices.Values(l.sources) }

// Seals returns the seals of a source that count, in the order of the topic. A source that was ingested again may have several.
func (l *Ledger) Seals(source string) []*schemas.SourceSeal { return l.seals[source] }

// Incomplete reports whether a run has found that a sealed source, given by its name, lacks messages.
func (l *Ledger) Incomplete(source string) bool { return l.incomplete[source] }
