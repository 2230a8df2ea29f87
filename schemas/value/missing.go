package value

import (
	"slices"
	"strings"
)

// Missing are words that say that a value is missing. Empty text always does.
type Missing []string

// Usual are the words that data frames and spreadsheets write for a missing value.
func Usual() Missing { return Missing{"NA", "N/A", "NaN", "nan", "null", "NULL"} }

// Has reports whether a text says that its value is missing. Space around it does not count.
func (m Missing) Has(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || slices.Contains(m, text)
}

// Without returns the words that are none of these: a label that the configuration names is a label.
func (m Missing) Without(labels []string) Missing {
	if len(labels) == 0 {
		return m
	}
	return slices.DeleteFunc(slices.Clone(m), func(word string) bool { return slices.Contains(labels, word) })
}
