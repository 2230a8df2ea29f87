package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// TrainedOn returns the options that read the files which a run was trained on, for rows to predict.
func TrainedOn(plan *schemas.Plan) Options {
	o, input := Defaults(), plan.Input
	o.Format, o.Label, o.Weight, o.Header = input.Format, Column(input.Label), Column(input.Weight), input.Header
	o.Delimiter, o.Columns.Use, o.Columns.Drop, o.Categorical = input.Delimiter, input.Use, input.Drop, input.Categorical
	if input.MissingValues != nil {
		o.MissingValues = input.MissingValues
	}
	if input.Text != "" {
		o.Text, o.Words = Column(input.Text), Text{Columns: input.WordColumns, Phrases: input.WordPhrases}
		if len(input.Vocabulary) > 0 {
			o.Words.Vocabulary = countedVocabulary().name
			o = o.WithVocabulary(input.Vocabulary)
		}
	}
	o.Missing, o.Targets = plan.Missing, plan.Targets
	if o.LabelColumns = input.LabelColumns; plan.Task() == schemas.SeveralLabels {
		o.Labels = LabelsSeveral
	}
	return o
}

// Stream is File for rows that somebody sends as a stream or a file of Arrow, which is not copied. name is what errors call it. Compressed buffers
// may have so many bytes in a batch when they are decompressed.
func Stream(ctx context.Context, name string, value []byte, unpacked int, o Options, want Features) iter.Seq2[*schemas.ExampleRows, error] {
	return func(yield func(*schemas.ExampleRows, error) bool) {
		o.predicts = true
		c := &content{Reader: bufio.NewReader(bytes.NewReader(nil)), name: name, value: value, unpacked: unpacked}
		r, err := arrowFormat().openFeatures(c, o, want)
		if err != nil {
			yield(nil, err)
			return
		}
		all(ctx, r)(yield)
	}
}

// Places says where a model has the values of rows to predict that come one by one, and checks them. It is safe for concurrent use.
type Places struct {
	layout layout
	byName map[string]int
}

// NewPlaces returns the places of the columns that a model was trained on, or if they are not known of its features, which then have no
// names. o is what TrainedOn returns.
func NewPlaces(o Options, want Features) (*Places, error) {
	o.predicts = true
	p := &Places{byName: map[string]int{}}
	columns := want.Columns
	if columns == nil {
		columns = make(schemas.Columns, want.Width)
	}
	p.layout = newLayout(o, "", len(columns), func(_ int, err error) error { return err })
	for i, column := range columns {
		p.layout.cells[i].fill(p.layout.features, column)
		p.layout.features += column.Features()
		if column.Name != "" {
			p.byName[column.Name] = i
		}
	}
	if p.layout.features != want.Width {
		return nil, fmt.Errorf("the columns have %d features, the model has %d", p.layout.features, want.Width)
	}
	return p, nil
}

// Columns returns how many columns there are.
func (p *Places) Columns() int { return len(p.layout.cells) }

// HasNames reports whether the columns have names.
func (p *Places) HasNames() bool { return len(p.byName) > 0 }

// Find returns the number of the column of a name.
func (p *Places) Find(name []byte) (column int, ok bool) {
	column, ok = p.byName[string(name)]
	return column, ok
}

// Numbers returns the place of the feature that a column of numbers is. ok is false for a column of words.
func (p *Places) Numbers(column int) (at int, ok bool) {
	c := p.layout.cells[column]
	return c.at, c.role == feature
}

// PutMissing notes in the features of a row that a column has no value. It is an error if the model was trained without missing values.
func (p *Places) PutMissing(features []float32, column int) error {
	c := p.layout.cells[column]
	own := features[c.at : c.at+1]
	if c.role == category {
		own = features[c.at : c.at+c.words.Features()]
	}
	for i := range own {
		own[i] = float32(math.NaN())
	}
	return p.layout.checkMissing("a missing value")
}

// PutText puts the text of a column's value into the features of a row: a word of a column of words, or a number.
func (p *Places) PutText(features []float32, column int, text string) error {
	c := p.layout.cells[column]
	if c.role == category {
		return p.layout.category(c, features, text)
	}
	v, err := p.layout.parse(strings.TrimSpace(text))
	if err != nil {
		return err
	}
	features[c.at] = v
	return nil
}

// Lacks returns an error that names the columns that a row lacks, given those that it has.
func (p *Places) Lacks(has []bool) error {
	names := make([]string, 0, len(has))
	for name, column := range p.byName {
		if !has[column] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return errors.New("columns are missing that the model needs: " + someNames(names))
}
