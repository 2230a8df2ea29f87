package value

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Missing are the values that mean a missing value. Empty text always does. [MissingOf] returns them; the zero value has none.
type Missing struct {
	words   []string    // as [Word] returns them
	numbers []float64   // of the words that are numbers, also as float32 rounds them
	halves  []float64   // of the words that are numbers, as float16 rounds them
	times   []time.Time // of the words that are dates or times
}

// MissingOf returns the missing values with these spellings.
func MissingOf(spellings []string) (m Missing) {
	for _, text := range spellings {
		text = strings.TrimSpace(text)
		m.words = append(m.words, Word(text))
		if v, err := strconv.ParseFloat(text, 64); err == nil && v == v && !isGo(text) { // also infinity
			m.numbers = append(m.numbers, v)
			if half := Half(v); !math.IsInf(half, 0) {
				m.halves = append(m.halves, half)
			}
			if single := float64(float32(v)); single != v && !math.IsInf(single, 0) {
				m.numbers = append(m.numbers, single)
			}
		}
		if t, ok := timeOfText(text); ok {
			m.times = append(m.times, t)
		}
	}
	return m
}

// Usual are the words that data frames and spreadsheets write for missing values.
func Usual() []string { return []string{"NA", "N/A", "NaN", "nan", "null", "NULL"} }

// Has reports whether a text means a missing word or label.
func (m Missing) Has(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" || slices.Contains(m.words, text) {
		return true
	}
	word := Word(text)
	return word != text && slices.Contains(m.words, word)
}

// HasNumbers reports whether some numbers mean a missing value.
func (m Missing) HasNumbers() bool { return len(m.numbers) > 0 }

// HasNumber reports whether a number means a missing value.
func (m Missing) HasNumber(v float64) bool { return slices.Contains(m.numbers, v) }

// HasHalf reports whether a number that is a float16 means a missing value: -10000 does if -9999 does, which float16 rounds to it.
func (m Missing) HasHalf(v float64) bool { return slices.Contains(m.halves, v) }

// HasNumberText reports whether a text in a column of numbers means a missing value: -999.0 does if -999 does. A boolean is
// not the same as 0 or 1 here.
func (m Missing) HasNumberText(text string) bool {
	switch {
	case m.Has(text):
		return true
	case len(m.numbers) == 0:
		return false
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return err == nil && m.HasNumber(v)
}

// HasTime reports whether a time means a missing value.
func (m Missing) HasTime(t time.Time) bool { return slices.ContainsFunc(m.times, t.Equal) }

// OrNaN returns a number, or NaN if it means a missing value.
func (m Missing) OrNaN(v float64) float64 {
	if m.HasNumber(v) {
		return math.NaN()
	}
	return v
}

// Number is the function Number, with NaN for a missing value.
func (m Missing) Number(text string) (float64, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && v-v == 0 && len(m.numbers) == 0 && !isGo(text) { // the usual case, first
		return v, nil
	}
	if m.HasNumberText(text) {
		return math.NaN(), nil
	}
	return Number(text)
}

// Without returns the missing values except the given words: a label in the configuration is never missing.
func (m Missing) Without(labels []string) Missing {
	if len(labels) == 0 {
		return m
	}
	m.words = slices.DeleteFunc(slices.Clone(m.words), func(word string) bool {
		return slices.ContainsFunc(labels, func(label string) bool { return Word(label) == word })
	})
	return m
}
