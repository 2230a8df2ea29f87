package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Times describe time columns, by column name or number.
type Times map[string]TimeColumn

// TimeColumn describes a time column.
type TimeColumn struct {
	Parts []string   `yaml:"parts"` // that become features
	Unit  value.Unit `yaml:"unit"`  // of times that are numbers; "" or value.UnitAuto: determined from the rows
}

// MarshalJSON returns the parts alone if the unit is the default.
func (c TimeColumn) MarshalJSON() ([]byte, error) {
	if c.Unit == "" {
		return json.Marshal(c.Parts)
	}
	return json.Marshal(map[string]any{"parts": c.Parts, "unit": c.Unit})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (c *TimeColumn) UnmarshalJSON(content []byte) error {
	*c = TimeColumn{}
	if json.Unmarshal(content, &c.Parts) == nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	type whole TimeColumn
	if err := decoder.Decode((*whole)(c)); err != nil || c.Parts == nil {
		return errTimes
	}
	return nil
}

var errTimes = errors.New("expected a list of texts for each of some columns, as in {created: [hour, weekday, age]}, or also " +
	"a unit, as in {created: {parts: [hour, weekday], unit: ms}}")

// UnmarshalJSON reads an object with a time column for each name.
func (t *Times) UnmarshalJSON(content []byte) error {
	if json.Unmarshal(content, (*map[string]TimeColumn)(t)) != nil {
		return errTimes
	}
	return nil
}

// auto reports whether the unit is determined from the rows.
func (c TimeColumn) auto() bool { return c.Unit == "" || c.Unit == value.UnitAuto }

// Auto reports whether the units of some columns are determined from the rows.
func (t Times) Auto() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(t)), TimeColumn.auto)
}

// Parts returns the parts of the columns.
func (t Times) Parts() map[string][]string {
	var parts map[string][]string
	for name, c := range t {
		if parts == nil {
			parts = map[string][]string{}
		}
		parts[name] = c.Parts
	}
	return parts
}

// PartsOfTimes returns columns with these parts.
func PartsOfTimes(parts map[string][]string) Times {
	var t Times
	for name, of := range parts {
		if t == nil {
			t = Times{}
		}
		t[name] = TimeColumn{Parts: of}
	}
	return t
}

// Columns returns the time columns, sorted.
func (t Times) Columns() []string { return slices.Sorted(maps.Keys(t)) }

// timeColumn returns the options of a time column, and the unit of its numbers, which need not be likely times if anyTime is set.
func (l *Layout) timeColumn(at int) (of TimeColumn, u value.Unit, anyTime bool, err error) {
	for _, key := range l.Options.Times.Columns() {
		if column, err := l.Column(Column(key)); err == nil && column == at {
			of = l.Options.Times[key]
		}
	}
	if !of.auto() {
		return of, of.Unit, true, nil
	}
	if found := l.Options.Found.Stamps[l.NameOf(at)]; found != nil {
		if u, err = found.Unit(); u != "" {
			anyTime = found.AnyTime(u)
		}
	}
	return of, u, anyTime, err
}

// CheckUnits returns an error if the numbers of a time column fit no unit.
func (l *Layout) CheckUnits() error {
	for at, c := range l.Cells {
		if c.Role == Time {
			if _, _, _, err := l.timeColumn(at); err != nil {
				return l.Locate(at, err)
			}
		}
	}
	return nil
}

// putTime sets the features of a row for the parts of a time.
func (l *Layout) putTime(c Cell, features []float32, text string) error {
	t, missing, err := l.timeOf(text, c.columns[0].Unit, c.columns[0].AnyTime)
	if err != nil {
		return err
	}
	for i, p := range c.columns {
		if missing {
			features[c.At+i] = float32(math.NaN())
		} else {
			features[c.At+i] = float32(value.PartOfTime(t, p.Time) - p.Offset)
		}
	}
	if missing {
		return l.CheckMissing(missingText(strings.TrimSpace(text)))
	}
	return nil
}

// timeOf parses a time, which may be missing. anyTime means that a number may be any time, not only a likely one.
func (l *Layout) timeOf(text string, u value.Unit, anyTime bool) (t time.Time, missing bool, err error) {
	if text = strings.TrimSpace(text); l.missing.HasNumberText(text) {
		return t, true, nil
	}
	parse := value.LikelyTime
	if anyTime {
		parse = value.Time
	}
	t, err = parse(text, u)
	return t, l.missing.HasTime(t), err
}

// bySource groups the columns of a model by the table column that they come from: one column, or several parts of the same times.
func bySource(columns examples.Columns) (sources []examples.Columns) {
	sources = make([]examples.Columns, 0, len(columns))
	for i, c := range columns {
		if last := len(sources) - 1; c.Time != "" && last >= 0 && sources[last][0].Time != "" && sources[last][0].Source() == c.Source() {
			sources[last] = columns[i-len(sources[last]) : i+1]
			continue
		}
		sources = append(sources, columns[i:i+1])
	}
	return sources
}

// Valid reports whether each column has different parts of times, and a unit.
func (t Times) Valid() bool {
	for _, c := range t {
		isPart := func(p string) bool { return !value.IsTimePart(p) }
		if len(c.Parts) == 0 || !distinct(c.Parts) || slices.ContainsFunc(c.Parts, isPart) || !c.auto() && !c.Unit.Known() {
			return false
		}
	}
	return AreColumns(t.Columns())
}
