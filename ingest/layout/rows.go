package layout

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// AppendRow adds a row of texts to a batch. parse parses a feature. The words of a text must have been counted. After an
// error the batch may have a part of the row.
func (l *Layout) AppendRow(b *examples.Rows, fields []string, parse func(field string) (float32, error)) error {
	var features []float32
	if l.IsMixed() {
		features = l.mixed.numbers
	} else {
		base := len(b.Floats)
		b.Floats = slices.Grow(b.Floats, b.Cols)[:base+b.Cols]
		features = b.Floats[base:]
	}
	for i, cell := range l.Cells {
		field := strings.TrimSpace(fields[i])
		switch cell.Role {
		case Feature:
			v, err := parse(field)
			if err != nil {
				return l.Locate(i, err)
			}
			features[cell.At] = cell.less(v, field)
		case Category:
			if err := l.Category(cell, features, field); err != nil {
				return l.Locate(i, err)
			}
		case Time:
			if err := l.PutTime(cell, features, field); err != nil {
				return l.Locate(i, err)
			}
		case Indicator:
			has, err := Indicate(field)
			if err != nil {
				return l.Locate(i, err)
			}
			if len(b.LabelLists) == b.Rows {
				b.LabelLists = append(b.LabelLists, []string{})
			}
			if has {
				b.LabelLists[b.Rows] = append(b.LabelLists[b.Rows], l.Indicated[i])
			}
		case Label:
			if l.Options.Several() {
				labels, err := l.Split(field)
				if err != nil {
					return l.Locate(i, err)
				}
				b.LabelLists = append(b.LabelLists, labels)
				continue
			}
			word, err := l.Word(field)
			if err != nil {
				return l.Locate(i, err)
			}
			AppendLabel(b, word)
		case Counted:
			if !l.IsMixed() {
				l.Words.AppendTo(&l.Rows)
			}
		case Hashed:
			if err := l.HashWord(cell, l.mixed.words, field); err != nil {
				return l.Locate(i, err)
			}
		case Target:
			if len(b.Targets) < (b.Rows+1)*len(l.Options.Targets) {
				b.Targets = slices.Grow(b.Targets, len(l.Options.Targets))[:(b.Rows+1)*len(l.Options.Targets)]
			}
			v, err := l.parseTarget(field)
			if err != nil {
				return l.Locate(i, err)
			}
			b.Targets[b.Rows*len(l.Options.Targets)+cell.At] = v
		case Weight:
			v, err := value.Single(field)
			if err != nil {
				return l.Locate(i, err)
			}
			if v < 0 {
				return l.Locate(i, fmt.Errorf("weight %s: expected a number ≥ 0", value.Quote(field)))
			}
			b.Weights = append(b.Weights, v)
		}
	}
	if l.IsMixed() {
		l.endMixed()
	}
	b.Rows++
	return nil
}

// Parse parses a feature; NaN if it is missing.
func (l *Layout) Parse(field string) (float32, error) {
	v, err := value.Single(field)
	if (err != nil || l.missing.HasNumbers()) && l.missing.HasNumberText(field) {
		return float32(math.NaN()), l.CheckMissing(missingText(field))
	}
	if err != nil && DecimalComma.MatchString(field) {
		err = fmt.Errorf("%w: write decimals with a point", err)
	}
	return v, err
}

// DecimalComma matches a number with a decimal comma.
var DecimalComma = regexp.MustCompile(`^[-+]?[0-9]+,[0-9]+$`)

// date matches the beginning of a date that examples.times accepts.
var date = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}`)

// Advise adds to the error of a feature that is not a number the keys that accept it.
func (l *Layout) Advise(column int, err error) error {
	field, ok := err.(value.NumberError)
	if !ok || l.Options.Predicts() || column < 0 || l.Cells[column].Role != Feature {
		return err
	}
	const missing, drop = "examples.missing_values lists the words for a missing value", "examples.columns.drop excludes a column"
	first, _ := utf8.DecodeRuneInString(string(field))
	unsigned := strings.TrimLeft(string(field), "+-")
	switch {
	case field == "" || len(field) > 40 || unsigned != "" && unsigned != string(field): // such as -Inf
	case date.MatchString(string(field)):
		return fmt.Errorf("%w: examples.times accepts columns of dates and times, %s", err, drop)
	case unicode.IsLetter(first):
		return fmt.Errorf("%w: examples.categorical accepts columns of words, %s, %s", err, drop, missing)
	case first == '#' || !strings.ContainsFunc(string(field), unicode.IsDigit): // such as \N, #N/A or #DIV/0!
		return fmt.Errorf("%w: %s, %s", err, missing, drop)
	}
	return err
}
