package pipeline

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// chainState is the state of a chain: its newest version, and the part of the window that the log still has. The zero value
// is a chain without versions.
type chainState struct {
	head    *schemas.Manifest        // of the newest version; nil: there is none
	stored  *protocol.StateWindow    // window after the head; nil: it is gone
	window  *schemas.Window          // the part of it that the log still has; nil: nothing is left
	counted []schemas.SourceProgress // progress of sources when the chain was restarted; see beginAgain
	renews  bool                     // the window differs from that of the head: the next run must be full
	had     int64                    // number of unforgotten rows in the window, before some were found to be gone
	least   int64                    // see schemas.Chain.AtLeast
	number  int                      // number of the next run in the chain
	attempt int                      // number of failed runs with that number
}

// rows returns the number of rows in the window, including forgotten ones; 0 without a window.
func (s *chainState) rows() int64 {
	if s.window == nil {
		return 0
	}
	return s.window.Rows()
}

// learnt returns the number of unforgotten rows in the window; 0 without a window.
func (s *chainState) learnt() int64 {
	if s.window == nil {
		return 0
	}
	return s.window.Learnt()
}

// spans returns the spans of the window's rows together with more.
func (s *chainState) spans(more coverage.Spans) coverage.Spans {
	all := slices.Clone(more)
	if s.window != nil {
		all = append(all, s.window.Spans()...)
	}
	return all
}

// deleted returns the part of the window before the starts of partitions.
func (s *chainState) deleted(begins []coverage.Span) (spans coverage.Spans) {
	for _, span := range s.spans(nil).Merged() {
		if span.Partition < len(begins) {
			span.To = min(span.To, begins[span.Partition].From)
		}
		if !span.Empty() {
			spans = append(spans, span)
		}
	}
	return spans
}

// leaveOut removes spans and then empty increments from the window. The next run must be full. If nothing is left, there
// is no window: the next version is again the first.
func (s *chainState) leaveOut(spans coverage.Spans) {
	rest := s.window.Without(spans)
	for i := range rest.Increments { // the number of rows left of a part is unknown
		c := &rest.Increments[i].Increment
		for j := range c.Covered {
			before, _ := s.window.Increments[i].Increment.On(c.Covered[j].Spans[0].Partition)
			if !slices.Equal(before.Spans, c.Covered[j].Spans) {
				c.Covered[j], c.Forgotten = coverage.Coverage{Spans: c.Covered[j].Spans}, 0
			}
		}
		c.Covered = slices.DeleteFunc(c.Covered, func(left coverage.Coverage) bool { return len(left.Spans.Without(c.Skipped)) == 0 })
	}
	rest.Increments = slices.DeleteFunc(rest.Increments, func(c schemas.WindowIncrement) bool { return len(c.Increment.Covered) == 0 })
	if s.renews = true; len(rest.Increments) == 0 {
		rest = nil
	}
	s.window = rest
}

// beginAgain restarts the chain with the next messages, because no rows are left in its window. The head stays until then,
// and the progress of sources is kept.
func (s *chainState) beginAgain() { s.counted, s.window = s.window.Progress, nil }

// progress returns the progress of sources in the chain.
func (s *chainState) progress() []schemas.SourceProgress {
	if s.window == nil {
		return s.counted
	}
	return s.window.Progress
}

// restarts reports whether the stream has changed, so that the messages before the change are to be dropped.
func (s *chainState) restarts(o topics.RetrainOptions) bool {
	return s.window.Changed > 0 && o.Full.Drift && s.attempt == 0 && !s.renews
}

// fullIsDue reports whether a full run is due. bytes is the maximum size of the window; see schemas.WindowBytes.
func (s *chainState) fullIsDue(job *topics.Job, bytes int64) bool {
	o, since := job.Retrain, s.window.Chain.Number-s.window.Full
	switch {
	case s.renews:
		return true
	case s.window.Rows() == 0: // nothing to fit
		return false
	case s.attempt > 0, s.head.Window == nil:
		return true
	case len(s.newClasses(o)) > 0 && o.OnNewClass == topics.NewClassFull:
		return true
	case since == 0:
		return false
	case s.window.Rejected == 1:
		return true
	case o.Full.Every > 0 && since >= o.Full.Every:
		return true
	case o.Decay == 1 && len(s.window.Shortened(s.mostTerms(job), bytes)) < len(s.window.Increments):
		return true // a full run has fewer and larger increments
	}
	return o.Full.Growth > 0 && float64(s.window.Rows()) >= o.Full.Growth*float64(s.window.FullRows)
}

// newClasses returns the labels in the window that are not classes of the newest version, but have enough rows.
func (s *chainState) newClasses(o topics.RetrainOptions) (labels []string) {
	if s.window == nil {
		return nil
	}
	for _, unknown := range s.window.Unknown {
		if unknown.Rows >= o.NewClassRows {
			labels = append(labels, unknown.Label)
		}
	}
	return labels
}

// classes returns the classes of a full run over the window: those of the newest version and additional ones.
func (s *chainState) classes(o topics.RetrainOptions) []string {
	labels := slices.Clone(s.head.Labels)
	if o.OnNewClass == topics.NewClassFull {
		labels = append(labels, s.newClasses(o)...)
		examples.SortLabels(labels)
	}
	return labels
}

// mostTerms returns the maximum number of terms on the state topic; 0: unlimited, or none at all.
func (s *chainState) mostTerms(job *topics.Job) int {
	if !topics.Updatable(job.Stages) {
		return 0
	}
	return job.Retrain.MostTerms(cmp.Or(job.Topics, topics.DefaultTopics()).State, s.window)
}
