package ingest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas"
)

// TopicWords finds the words of the categorical columns of a topic of values and the units of its times, as Sources does for
// files. Create it with NewTopicWords.
type TopicWords struct {
	values *Values
	found  *layout.FoundWords
	rows   int
	last   error // why the last unusable message is unusable
}

// NewTopicWords returns empty TopicWords, for options that pass Check and have a FromTopic.
func NewTopicWords(o Options) (*TopicWords, error) {
	v, err := NewValues(o)
	return &TopicWords{values: v, found: layout.NewFoundWords(o.Options)}, err
}

// Add adds the words of a value. It ignores invalid values, which Values reports. It is an error if a column has too many
// words.
func (w *TopicWords) Add(ctx context.Context, m TopicMessage) error {
	v := w.values
	rows, err := v.rowsOf(ctx, m)
	if unusable, _ := Unusable(err); err != nil && (!unusable || ctx.Err() != nil) {
		return err
	}
	if err != nil || len(rows) == 0 {
		w.last = cmp.Or(err, w.last)
		return nil
	}
	if v.whole.Mode == layout.LabelLater {
		if rows, err = v.says.Put(rows, v.says.Any(), v.widthOf()); err != nil {
			return nil
		}
	}
	if len(v.Cells) == 0 {
		n, err := v.width(rows[0])
		if err == nil {
			err = v.assign(n, rows[0])
		}
		if err != nil {
			v.forget()
			w.last = err
			return nil
		}
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(row []tabular.Cell) bool {
		return len(row) < len(v.Cells) || v.wanted > 0 && len(row) != v.wanted
	})
	w.rows += len(rows)
	return v.addWords(rows, w.found)
}

// Enough reports whether further values can hardly change what was found.
func (w *TopicWords) Enough() bool { return w.found.More(w.rows) == 0 }

// Options returns the options with the words and units found. It is an error if a column of words has none, or if the numbers
// of a column of times are of no unit.
func (w *TopicWords) Options() (Options, error) {
	o := w.values.whole
	with, err := o.WithWords(w.found)
	if err != nil {
		return o, err
	}
	o.Options = with
	for _, c := range o.Categorical {
		switch {
		case len(o.Found.Categories[c]) > 0 || o.Mixed():
		case w.last != nil && w.rows == 0:
			return o, fmt.Errorf("no message can be used: %s", schemas.WithoutValues(w.last.Error()))
		default:
			return o, fmt.Errorf("no message has a word in the column %s of examples.categorical yet: "+
				"words are collected when the topic is first read", c)
		}
	}
	w.values.Options = with
	return o, w.values.CheckUnits()
}
