package layout

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas/value"
)

// DecimalComma matches a number with a decimal comma.
var DecimalComma = regexp.MustCompile(`^[-+]?[0-9]+,[0-9]+$`)

// date matches the beginning of a date that examples.times accepts.
var date = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}`)

// advise adds to the error of a value that is not a number how to write it, or the keys that accept a feature.
func (l *Layout) advise(column int, err error) error {
	field, ok := err.(value.NumberError)
	if ok && DecimalComma.MatchString(string(field)) {
		return fmt.Errorf("%w: write decimals with a point", err)
	}
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
