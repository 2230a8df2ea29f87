package value

import (
	"math"
	"strconv"
	"strings"
)

// Word returns the word of a text in a categorical column: the text as spelt, without surrounding white space, because codes
// such as 1E2, 007, +1 and 3.10 are no numbers. Two spellings change: a boolean is the word true or false, and an integer that
// a program has written as a float, such as 1.0 of pandas, is the word 1.
func Word(text string) string {
	text = Label(text)
	number, isFloat := strings.CutSuffix(text, ".0")
	if text != "-0" && !isFloat || strings.ContainsAny(number, ".eE") || !isJSON(number) {
		return text
	}
	return withoutSign(number)
}

// maxWhole is the largest integer up to which float64 represents all integers.
const maxWhole = 1 << 53

func withoutSign(number string) string {
	if number == "-0" {
		return "0"
	}
	return number
}

// WordOf returns the word of a number: the shortest decimal form that is unique in its precision, without a point if the
// number is an integer. A number that float32 represents exactly is treated as a float32.
func WordOf(v float64) string {
	switch single := float32(v); {
	case v == 0:
		return "0"
	case v == math.Trunc(v) && math.Abs(v) <= maxWhole:
		return strconv.FormatInt(int64(v), 10)
	case float64(single) == v:
		return strconv.FormatFloat(v, 'g', -1, 32)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// WordOfBoolean returns the word of a boolean, which is also its label.
func WordOfBoolean(v bool) string { return strconv.FormatBool(v) }

// Label returns the label of a text. Surrounding white space is ignored. A boolean is the label true or false, regardless
// of its spelling. Numbers are unchanged: text has no type by which 1.0 and 1 would be the same.
func Label(text string) string {
	text = strings.TrimSpace(text)
	if v, ok := Boolean(text); ok {
		return WordOfBoolean(v)
	}
	return text
}

// NumberLabel is Label for texts that are numbers where possible, such as LIBSVM labels: +1, 1 and 1.0 are the label 1.
func NumberLabel(text string) string {
	text = strings.TrimSpace(text)
	if !isDecimal(text) {
		return Label(text)
	}
	if whole, _ := digits(text); whole == text && (len(text) == 1 || text[0] != '0') { // may be longer than any number type
		return text
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return WordOf(v)
}
