package layout

import (
	"fmt"
	"math"
	"strings"

	"github.com/stagewise/stagewise/schemas/examples"
)

// Places maps the values of single rows to predict to feature positions, and checks them. It is safe for concurrent use.
type Places struct {
	*Names
	layout Layout
}

// NewPlaces returns the Places of a model's training columns, or, if these are unknown, of its features, which then have
// no names. o is the result of TrainedAs.
func NewPlaces(o Options, want Features) (*Places, error) {
	o = o.ToPredict()
	p := &Places{}
	columns := want.Columns
	if columns == nil {
		columns = make(examples.Columns, want.Width)
	}
	sources := sourcesOf(columns)
	p.layout = New(o, "", len(sources), func(_ int, err error) error { return err })
	var names []string
	for i, of := range sources {
		names = append(names, of.name)
		for _, column := range of.columns {
			p.layout.Cells[i].fill(p.layout.Features, column)
			p.layout.Features += column.Features()
		}
	}
	p.Names = NewNames(names)
	if p.layout.Features != want.Width {
		return nil, fmt.Errorf("the columns have %d features, the model has %d", p.layout.Features, want.Width)
	}
	return p, nil
}

// Numbers returns the feature position of a numeric column. ok is false for a categorical or time column, and for one with
// an offset, for which PutText needs the text, or if some numbers are missing values.
func (p *Places) Numbers(column int) (at int, ok bool) {
	c := p.layout.Cells[column]
	return c.At, c.Role == Feature && c.Offset == 0 && !p.layout.missing.HasNumbers()
}

// PutMissing sets the features of a row for a missing value of a column. It is an error if the model was trained without
// missing values.
func (p *Places) PutMissing(features []float32, column int) error {
	c := p.layout.Cells[column]
	own := features[c.At : c.At+1]
	switch c.Role {
	case Category:
		own = features[c.At : c.At+c.words.Features()]
	case Time:
		own = features[c.At : c.At+len(c.parts)]
	}
	for i := range own {
		own[i] = float32(math.NaN())
	}
	return p.layout.CheckMissing("a missing value")
}

// PutText sets the features of a row for a column's value: a word, a time, or a number.
func (p *Places) PutText(features []float32, column int, text string) error {
	c := p.layout.Cells[column]
	switch c.Role {
	case Category:
		return p.layout.Category(c, features, text)
	case Time:
		return p.layout.PutTime(c, features, text)
	}
	text = strings.TrimSpace(text)
	v, err := p.parse(text)
	if err != nil {
		return err
	}
	features[c.At] = c.less(v, text)
	return nil
}

// parse parses a feature; NaN if it is missing.
func (p *Places) parse(text string) (float32, error) {
	v, err := p.layout.missing.Number(text)
	if err != nil {
		return 0, p.layout.Advise(-1, err)
	}
	if v != v {
		return float32(v), p.layout.CheckMissing(missingText(text))
	}
	if single := float32(v); single-single != 0 {
		return 0, fmt.Errorf("%v is not a finite float32", v)
	}
	return float32(v), nil
}
