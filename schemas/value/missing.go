package value

import (
	"slices"
	"strings"
)

// Missing are words that mean a missing value. Empty text always does.
type Missing []string

// Usual are the words that data frames and spreadsheets write for missing values.
func Usual() Missing { return Missing{"NA", "N/A", "NaN", "nan", "null", "NULL"} }

// Has reports whether a text means a missing value. Surrounding white space is ignored.
func (m Missing) Has(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || slices.Contains(m, text)
}

// Without returns the words except the given ones: a label in the configuration is never missing.
func (m Missing) Without(labels []string) Missing {
	if len(labels) == 0 {
		return m
	}
	return slices.DeleteFunc(slices.Clone(m), func(word string) bool { return slices.Contains(labels, word) })
}
