package pipeline

import (
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
)

// A model tells classes apart. So the first increment of a chain that finds its classes goes on until it has rows of two.

// distinct is the first two labels of some messages.
type distinct []string

// add adds the labels of a message that counts.
func (d *distinct) add(c *counted) {
	if !c.counts {
		return
	}
	for _, label := range c.labels {
		if len(*d) < 2 && !slices.Contains(*d, label) {
			*d = append(*d, label)
		}
	}
}

// tellApart reports whether a chain can begin with rows of such labels.
func (b *backlog) tellApart(classes distinct) bool { return b.labels == nil || len(classes) > 1 }

// classesOf returns the first labels of spans that were cut and are not taken.
func (b *backlog) classesOf(spans schemas.Spans) (classes distinct) {
	for _, s := range spans {
		for i := range b.ahead[s.Partition] {
			if c := &b.ahead[s.Partition][i]; c.offset < s.To {
				classes.add(c)
			}
		}
	}
	return classes
}

// firstLabels returns what finds the first two labels of a message, of rows that a run can learn from; nil if the job's chain needs none to begin.
func firstLabels(job Job) func(*schemas.Examples) []string {
	if len(job.Examples.Classes) > 0 || len(job.Examples.Targets) > 0 || job.Examples.PlanLabels() != "" {
		return nil
	}
	return func(examples *schemas.Examples) (labels []string) {
		if examples.HasLists() {
			return nil
		}
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
				overflowing, known = worker.Overflowing(job.Prepare, examples), true
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

// waitForClasses says once that the first version needs rows of another class. At the end of the topic, if no more are to come, that is an error.
func (r *runner) waitForClasses(spans schemas.Spans, rows int64, untilEnd bool) error {
	classes := r.backlog.classesOf(spans)
	err := &solve.LabelsError{Classes: len(classes)}
	if len(classes) > 0 {
		err.Label = classes[0]
	}
	if untilEnd {
		return err
	}
	if !r.waits {
		r.waits = true
		event.Notice(r.rec, "the first version waits for rows of another class: of %s so far, %v", english.Plural(int(rows), "row", ""), err)
	}
	return nil
}
