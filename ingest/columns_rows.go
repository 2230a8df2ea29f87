package ingest

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas"
)

// appendRow adds a row of texts, one of each column, to a batch. parse parses a feature. After an error the batch may have a part of the row.
func (l *layout) appendRow(b *schemas.ExampleRows, row []string, parse func(field string) (float32, error)) error {
	base := len(b.Floats)
	b.Floats = slices.Grow(b.Floats, b.Cols)[:base+b.Cols]
	features := b.Floats[base:]
	for i, cell := range l.cells {
		field := strings.TrimSpace(row[i])
		switch cell.role {
		case feature:
			v, err := parse(field)
			if err != nil {
				return l.locate(i, err)
			}
			features[cell.at] = v
		case category:
			if err := l.category(cell, features, field); err != nil {
				return l.locate(i, err)
			}
		case indicator:
			has, err := indicate(field)
			if err != nil {
				return l.locate(i, err)
			}
			if len(b.LabelLists) == b.Rows {
				b.LabelLists = append(b.LabelLists, []string{})
			}
			if has {
				b.LabelLists[b.Rows] = append(b.LabelLists[b.Rows], l.indicated[i])
			}
		case label:
			if l.options.several() {
				labels, err := l.split(field)
				if err != nil {
					return l.locate(i, err)
				}
				b.LabelLists = append(b.LabelLists, labels)
				continue
			}
			word, err := l.word(field)
			if err != nil {
				return l.locate(i, err)
			}
			b.Words = append(b.Words, word)
		case counted:
			l.words.appendTo(&l.rows)
		case target:
			if len(b.Targets) < (b.Rows+1)*len(l.options.Targets) {
				b.Targets = slices.Grow(b.Targets, len(l.options.Targets))[:(b.Rows+1)*len(l.options.Targets)]
			}
			v, err := parseTarget(field)
			if err != nil {
				return l.locate(i, err)
			}
			b.Targets[b.Rows*len(l.options.Targets)+cell.at] = v
		case weight:
			v, err := number(field)
			if err != nil {
				return l.locate(i, err)
			}
			if v < 0 {
				return l.locate(i, fmt.Errorf("weight %s: expected a number ≥ 0", quote(field)))
			}
			b.Weights = append(b.Weights, v)
		}
	}
	b.Rows++
	return nil
}

// parse parses a feature; NaN if it is missing.
func (l *layout) parse(field string) (float32, error) {
	if l.isMissing(field) {
		return float32(math.NaN()), l.checkMissing(missingText(field))
	}
	v, err := number(field)
	if err != nil && decimalComma.MatchString(field) {
		err = fmt.Errorf("%w: write decimals with a point", err)
	}
	return v, err
}

// decimalComma is a number as half of the world writes it.
var decimalComma = regexp.MustCompile(`^[-+]?[0-9]+,[0-9]+$`)

// looksLikeWords reports whether a field that is no number may be one of a few words.
func looksLikeWords(field string) bool {
	first, _ := utf8.DecodeRuneInString(field)
	return unicode.IsLetter(first) && len(field) <= 40
}

// number parses a finite float32.
func number(field string) (float32, error) {
	if field == "" {
		return 0, errors.New("an empty field")
	}
	v, err := strconv.ParseFloat(field, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is too large for a float32", quote(field))
	case err != nil:
		return 0, fmt.Errorf("%s is not a number", quote(field))
	case v-v != 0: // v-v is 0 for finite v only
		return 0, fmt.Errorf("%s is not a finite number", quote(field))
	}
	return float32(v), nil
}
