package value

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Number parses a number: a decimal number as in JSON, optionally with a plus sign, with leading zeros, or without digits
// before or after the point, as other programs write them; or a boolean, which is 0 or 1. Surrounding white space is
// ignored. Go's underscores and hexadecimal digits are rejected. For a number that is too large for float64 it returns
// infinity.
func Number(text string) (float64, error) {
	text = strings.TrimSpace(text)
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil && v-v == 0 && !isGo(text): // v-v is 0 of a finite number only
		return v, nil
	case err == nil || !isDecimal(text):
		if v, ok := Boolean(text); ok {
			return ofBoolean(v), nil
		}
		return 0, NumberError(text)
	}
	return v, nil // out of range
}

// isGo reports whether a number that strconv parses uses Go-specific syntax: underscores or hexadecimal digits.
func isGo(number string) bool {
	for i := range len(number) { // the functions of package strings take longer on short texts
		if c := number[i]; c == '_' || c == 'x' || c == 'X' {
			return true
		}
	}
	return false
}

// NumberError is the error of a text that is not a number.
type NumberError string

// Error implements error.
func (e NumberError) Error() string {
	if e == "" {
		return "an empty field"
	}
	switch strings.ToLower(strings.TrimLeft(string(e), "+-")) {
	case "inf", "infinity", "nan":
		return Quote(string(e)) + " is not a finite number"
	}
	return Quote(string(e)) + " is not a number"
}

func ofBoolean(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

// Boolean parses a boolean: true or false as in JSON, or as written by Python, R and SQL: True, TRUE, False, FALSE.
func Boolean(text string) (v, ok bool) {
	switch text {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

// isDecimal reports whether a text is a decimal number.
func isDecimal(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	inRange := err == nil || errors.Is(err, strconv.ErrRange)
	return inRange && !isGo(text) && strings.ContainsAny(text, "0123456789") // infinity and NaN have none
}

// isJSON reports whether a text is a JSON number.
func isJSON(text string) bool {
	return text != "" && (text[0] == '-' || text[0]-'0' <= 9) && json.Valid([]byte(text))
}

// AppendNumber appends a number as JSON, in the shortest form that is unique in so many bits; null if it is not finite.
func AppendNumber(dst []byte, v float64, bits int) []byte {
	if v-v != 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

// digits splits off the leading digits of a text.
func digits(text string) (digits, rest string) {
	n := 0
	for n < len(text) && text[n]-'0' <= 9 {
		n++
	}
	return text[:n], text[n:]
}

// Quote returns a value for an error. It truncates long values.
func Quote(text string) string {
	const maxBytes = 40
	if len(text) > maxBytes {
		cut := maxBytes
		for cut > maxBytes-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
			cut--
		}
		return strconv.Quote(text[:cut]) + "…"
	}
	return strconv.Quote(text)
}
