package chain

import (
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// A classifier needs two classes. So the first increment of a chain that determines its classes extends until it has rows
// of two. If forgetting rows leaves the window with one class, so does the increment of the due full run.

// Labels is the first two labels in messages.
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

// TellApart reports whether a chain can start with rows of these labels.
func (b *Backlog) TellApart(classes Labels) bool { return b.labels == nil || len(classes) > 1 }

// LabelsOf returns the labels there, and the first ones in spans that were cut and not yet taken: two at most.
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
