package layout

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Times are the parts of times that time columns become, by column name or number.
type Times map[string][]string

// Columns returns the time columns, sorted.
func (t Times) Columns() []string { return slices.Sorted(maps.Keys(t)) }

// part is a part of a column's times: a feature.
type part struct {
	column examples.Column
	at     int // feature position
}

// of returns the feature of a part, minus its offset.
func (p part) of(v float64) float32 { return float32(v - p.column.Offset) }

// timesOf returns the parts of a time column. name is its name in the file.
func (l *Layout) timesOf(at int, name string) (columns []examples.Column, err error) {
	for _, key := range l.Options.Times.Columns() {
		column, err := l.Column(Column(key))
		if err != nil {
			return nil, err
		}
		if column != at {
			continue
		}
		for _, p := range l.Options.Times[key] {
			column := examples.PartOf(name, p)
			column.Offset = l.Options.offset(column.Name)
			columns = append(columns, column)
		}
	}
	return columns, nil
}

// placeTime adds a part of a column's times, with a feature position.
func (c *Cell) placeTime(at int, column examples.Column) {
	if c.Role = Time; len(c.parts) == 0 {
		c.At = at
	}
	c.parts = append(c.parts, part{column, at})
}

// PutTime sets the features of a row for the parts of a time.
func (l *Layout) PutTime(c Cell, features []float32, text string) error {
	text = strings.TrimSpace(text)
	missing := l.missing.HasNumberText(text)
	var t time.Time
	if !missing {
		var err error
		if t, err = value.Time(text); err != nil {
			return err
		}
		missing = l.missing.HasTime(t)
	}
	if missing {
		for _, p := range c.parts {
			features[p.at] = float32(math.NaN())
		}
		return l.CheckMissing(missingText(text))
	}
	for _, p := range c.parts {
		features[p.at] = p.of(value.PartOfTime(t, p.column.Time))
	}
	return nil
}

// AddTime adds a time of a column in the options' times. Ages are relative to the newest.
func (s Spreads) AddTime(name, text string) {
	t, err := value.Time(text)
	if err != nil {
		return
	}
	age := value.PartOfTime(t, value.TimeAge)
	key := examples.PartOf(name, value.TimeAge).Name
	at := s[key]
	if at == nil {
		at = &spread{age: true, shift: age}
		s[key] = at
	}
	at.n, at.shift = at.n+1, min(at.shift, age)
}

// source is a table column that a model needs: for one of its own columns, or for several parts of the same times.
type source struct {
	name    string
	columns []examples.Column
}

// sourcesOf returns the table columns for the columns of a model.
func sourcesOf(columns examples.Columns) (sources []source) {
	for _, c := range columns {
		if last := len(sources) - 1; c.Time != "" && last >= 0 && sources[last].name == c.Source() && sources[last].columns[0].Time != "" {
			sources[last].columns = append(sources[last].columns, c)
			continue
		}
		sources = append(sources, source{c.Source(), []examples.Column{c}})
	}
	return sources
}

// CheckParts reports whether parts of times are valid and unique.
func CheckParts(parts []string) bool {
	known := map[string]bool{}
	for _, p := range parts {
		if !value.IsTimePart(p) || known[p] {
			return false
		}
		known[p] = true
	}
	return len(parts) > 0
}
