package backlog

import (
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// A model tells classes apart. So the first increment of a chain that finds its classes goes on until it has rows of two. If forgotten
// rows leave the window with one class, so does the increment of the full run that is due.

// Labels is the first two labels of some messages.
type Labels []string

// add adds the labels of a message that counts.
func (l *Labels) add(c *counted) {
	if !c.counts {
		return
	}
	for _, label := range c.labels {
		if len(*l) < 2 && !slices.Contains(*l, label) && !slices.Contains(*l, examples.NewLabels(*l).Spelt(label)) {
			*l = append(*l, label)
		}
	}
}

// TellApart reports whether a chain can begin with rows of such labels.
func (b *Backlog) TellApart(classes Labels) bool { return b.labels == nil || len(classes) > 1 }

// LabelsOf returns the labels that are there, and the first ones of spans that were cut and are not taken: two at most.
func (b *Backlog) LabelsOf(spans coverage.Spans, there Labels) Labels {
	classes := slices.Clone(there)
	for _, s := range spans {
		for i := range b.ahead[s.Partition] {
			if c := &b.ahead[s.Partition][i]; c.offset < s.To {
				classes.add(c)
			}
		}
	}
	return classes
}
