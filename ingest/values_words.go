package ingest

import (
	"fmt"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// TopicWords finds the words of the categorical columns of a topic of values, as Sources finds those of files. NewTopicWords makes it.
type TopicWords struct {
	values *Values
	found  *layout.FoundWords
}

// NewTopicWords returns TopicWords without words, for options that pass Check and have a FromTopic.
func NewTopicWords(o Options) *TopicWords {
	return &TopicWords{NewValues(o), layout.NewFoundWords(o.Options)}
}

// Add adds the words of a value. A value that can't be used has none: Values says why. It is an error if a column has too many words.
func (w *TopicWords) Add(value []byte) error {
	v := w.values
	rows, err := v.rowsOf(value)
	if err != nil || len(rows) == 0 {
		return nil
	}
	if len(v.Cells) == 0 {
		if err := v.format.assign(v, rows[0]); err != nil {
			v.Cells, v.wanted = nil, 0
			return nil
		}
	}
	for _, row := range rows {
		if len(row.Fields) < len(v.Cells) || v.wanted > 0 && len(row.Fields) != v.wanted {
			continue
		}
		for at, cell := range v.Cells {
			if cell.Role != layout.Category {
				continue
			}
			if err := w.found.Add(&v.Layout, at, row.Fields[at]); err != nil {
				return v.Locate(at, err)
			}
		}
	}
	return nil
}

// Options returns the options with the words that were found. It is an error if a column has none.
func (w *TopicWords) Options() (Options, error) {
	o := w.values.whole
	with, err := o.WithWords(w.found)
	if err != nil {
		return o, err
	}
	o.Options = with
	for _, c := range o.Categorical {
		if len(o.WordsOf(c)) == 0 {
			return o, fmt.Errorf("no message has a word in the column %s of examples.categorical yet: "+
				"words are collected when the topic is first read", c)
		}
	}
	return o, nil
}

// WithColumns returns the options with the words of these columns, which messages of a topic have had before.
func (o Options) WithColumns(columns examples.Columns) Options {
	o.Options = o.Options.WithColumns(columns)
	return o
}
