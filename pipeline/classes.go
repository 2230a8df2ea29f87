package pipeline

import (
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/chain"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve/survey"
)

// firstLabels returns a function that returns the first two labels of a message's trainable rows; nil if the job's chain
// can start without them.
func firstLabels(job topics.Job) func(*examples.Batch) []string {
	if len(job.Examples.Classes) > 0 || len(job.Examples.Targets) > 0 || job.Examples.PlanLabels() != "" {
		return nil
	}
	missing := job.Examples.MissingLabels()
	var overflows visit.Overflows
	return func(examples *examples.Batch) (labels []string) {
		if examples.HasLists() {
			return nil
		}
		examples.MissLabels(missing)
		overflowing, known := []int(nil), false
		for row := range examples.Rows {
			if !examples.Labelled(row) {
				continue
			}
			label := examples.Label(row)
			if slices.Contains(labels, label) {
				continue
			}
			if !known {
				overflowing, known = overflows.In(job.Prepare, examples), true
			}
			if slices.Contains(overflowing, row) {
				continue
			}
			if labels = append(labels, label); len(labels) == 2 {
				break
			}
		}
		return labels
	}
}

// findsClasses reports whether the next run determines its classes: the first of a chain, and one whose window has one
// class left.
func (r *runner) findsClasses() bool { return r.chain.Window == nil || len(r.only) > 0 }

// waitForClasses reports once that the next version needs rows of another class. At the end of the topic, if no more are
// expected, that is an error.
func (r *runner) waitForClasses(increment chain.Increment, untilEnd bool) error {
	classes := r.backlog.LabelsOf(increment.Spans, r.only)
	err := &survey.LabelsError{Classes: len(classes)}
	if len(classes) > 0 {
		err.Label = classes[0]
	}
	if untilEnd {
		return err
	}
	switch {
	case r.waits:
		return nil
	case len(r.only) > 0:
		event.Notice(r.rec, "the version that replaces version %d waits for rows of a second class: without forgotten rows, %v",
			r.chain.Head.Version, err)
	default:
		event.Notice(r.rec, "the first version waits for rows of a second class: of %s so far, %v",
			english.Plural(int(increment.Rows), "row", ""), err)
	}
	r.waits = true
	return nil
}

// looksForClasses records that it is unknown whether the window has one class left.
func (r *runner) looksForClasses() { r.only, r.waits = nil, false }
