// Package chain decides what the next run of a chain is trained on: pure functions of the state of the chain, the
// configuration and the messages of the examples topic.
//
//	messages, sealed sources ──Backlog──cut──▶ spans of the next increment
//	newest version, window, new spans ──▶ plan of an update, or of a full run
//
// An update adds an increment to the sums and removes others; a full run fits the whole window. Package pipeline reads the
// log for these decisions, and submits the plans. A [Backlog] divides the messages that no run has processed into increments.
// Cuts alternate between the partitions by the distance of offsets from the start of their partition: if the topic does not
// grow, they depend on nothing else.
package chain

import (
	"cmp"
	"math"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// State is the state of a chain: its newest version, and the window as far as the log still has it. The zero value is a
// chain without versions.
type State struct {
	Head    *schemas.Manifest        // of the newest version; nil: there is none
	Stored  *protocol.StateWindow    // window after the head; nil: it is gone
	Window  *schemas.Window          // the same, as far as the log still has it; nil: nothing is left
	Oldest  []int64                  // by partition: first offset in the window
	Counted []schemas.SourceProgress // progress of sources when the chain was restarted; see BeginAgain
	Renews  bool                     // the window differs from that of the head: the next run must be full
	Had     int64                    // number of unforgotten rows in the window, before some were found to be gone
	Least   int64                    // see schemas.Chain.AtLeast
	Number  int                      // number of the next run in the chain
	Attempt int                      // number of failed runs with that number
}

// SetWindow sets the window.
func (s *State) SetWindow(w *schemas.Window) { s.Window, s.Oldest = w, oldest(w) }

// oldest returns, by partition, the first offset in a window.
func oldest(w *schemas.Window) (first []int64) {
	if w == nil {
		return nil
	}
	for i := range w.Increments {
		for _, covered := range w.Increments[i].Increment.Covered {
			span := covered.Spans[0]
			for len(first) <= span.Partition {
				first = append(first, math.MaxInt64)
			}
			first[span.Partition] = min(first[span.Partition], span.From)
		}
	}
	return first
}

// Rows returns the number of rows in the window, including forgotten ones; 0 without a window.
func (s *State) Rows() int64 {
	if s.Window == nil {
		return 0
	}
	return s.Window.Rows()
}

// Learnt returns the number of unforgotten rows in the window; 0 without a window.
func (s *State) Learnt() int64 {
	if s.Window == nil {
		return 0
	}
	return s.Window.Learnt()
}

// Spans returns the spans of the window's rows together with more.
func (s *State) Spans(more coverage.Spans) coverage.Spans {
	all := slices.Clone(more)
	if s.Window != nil {
		all = append(all, s.Window.Spans()...)
	}
	return all
}

// Deleted returns the part of the window before the starts of partitions.
func (s *State) Deleted(begins []coverage.Span) (spans coverage.Spans) {
	for _, span := range s.Spans(nil).Merged() {
		if span.Partition < len(begins) {
			span.To = min(span.To, begins[span.Partition].From)
		}
		if !span.Empty() {
			spans = append(spans, span)
		}
	}
	return spans
}

// LosesTo reports whether partitions with these starts lack a part of the window.
func (s *State) LosesTo(begins []coverage.Span) bool {
	return s.Window != nil && slices.ContainsFunc(begins, func(b coverage.Span) bool {
		return b.Partition < len(s.Oldest) && s.Oldest[b.Partition] < b.From
	})
}

// LeaveOut removes spans and then empty increments from the window. The next run must be full. If nothing is left, there
// is no window: the next version is again the first.
func (s *State) LeaveOut(spans coverage.Spans) {
	rest := s.Window.Without(spans)
	for i := range rest.Increments { // the number of rows left of a part is unknown
		c := &rest.Increments[i].Increment
		for j := range c.Covered {
			before, _ := s.Window.Increments[i].Increment.On(c.Covered[j].Spans[0].Partition)
			if !slices.Equal(before.Spans, c.Covered[j].Spans) {
				c.Covered[j], c.Forgotten = coverage.Coverage{Spans: c.Covered[j].Spans}, 0
			}
		}
		c.Covered = slices.DeleteFunc(c.Covered, func(left coverage.Coverage) bool { return len(left.Spans.Without(c.Skipped)) == 0 })
	}
	rest.Increments = slices.DeleteFunc(rest.Increments, func(c schemas.WindowIncrement) bool { return len(c.Increment.Covered) == 0 })
	if s.Renews = true; len(rest.Increments) == 0 {
		rest = nil
	}
	s.SetWindow(rest)
}

// BeginAgain restarts the chain with the next messages, because no rows are left in its window. The head stays until then,
// and the progress of sources is kept.
func (s *State) BeginAgain() { s.Counted, s.Window = s.Window.Progress, nil }

// Progress returns the progress of sources in the chain.
func (s *State) Progress() []schemas.SourceProgress {
	if s.Window == nil {
		return s.Counted
	}
	return s.Window.Progress
}

// Restarts reports whether the stream has changed, so that the messages before the change are to be dropped.
func (s *State) Restarts(o topics.RetrainOptions) bool {
	return s.Window.Changed > 0 && o.Full.Drift && s.Attempt == 0 && !s.Renews
}

// FullIsDue reports whether a full run is due. bytes is the maximum size of the window; see schemas.WindowBytes.
func (s *State) FullIsDue(job *topics.Job, bytes int64) bool {
	o, since := job.Retrain, s.Window.Chain.Number-s.Window.Full
	switch {
	case s.Renews:
		return true
	case s.Window.Rows() == 0: // nothing to fit
		return false
	case s.Attempt > 0, s.Head.Window == nil:
		return true
	case len(s.NewClasses(o)) > 0 && o.OnNewClass == topics.NewClassFull:
		return true
	case since == 0:
		return false
	case s.Window.Rejected == 1:
		return true
	case o.Full.Every > 0 && since >= o.Full.Every:
		return true
	case o.Decay == 1 && len(s.Window.Shortened(s.MostTerms(job), bytes)) < len(s.Window.Increments):
		return true // which has fewer and larger increments
	}
	return o.Full.Growth > 0 && float64(s.Window.Rows()) >= o.Full.Growth*float64(s.Window.FullRows)
}

// NewClasses returns the labels in the window that are not classes of the newest version, but have enough rows.
func (s *State) NewClasses(o topics.RetrainOptions) (labels []string) {
	for _, unknown := range s.Window.Unknown {
		if unknown.Rows >= o.NewClassRows {
			labels = append(labels, unknown.Label)
		}
	}
	return labels
}

// Classes returns the classes of a full run over the window: those of the newest version and additional ones.
func (s *State) Classes(o topics.RetrainOptions) []string {
	labels := slices.Clone(s.Head.Labels)
	if o.OnNewClass == topics.NewClassFull {
		labels = append(labels, s.NewClasses(o)...)
		examples.SortLabels(labels)
	}
	return labels
}

// MostTerms returns the maximum number of terms on the state topic; 0: unlimited, or none at all.
func (s *State) MostTerms(job *topics.Job) int {
	if !topics.Updatable(job.Stages) {
		return 0
	}
	return job.Retrain.MostTerms(cmp.Or(job.Topics, topics.DefaultTopics()).State, s.Window)
}
