// Package value parses the values of rows written by people and programs: numbers, booleans, words, labels and missing
// values, as text and as JSON. Files, topics, requests and messages of examples are all parsed here, so the same row has
// the same values from every source.
package value

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrNotUTF8 reports that a text is not UTF-8. Invalid bytes are not replaced: words that differ only in these bytes
// would become the same word.
var ErrNotUTF8 = errors.New("not UTF-8")

// CheckText returns an error, which wraps [ErrNotUTF8], unless a text is UTF-8.
func CheckText(text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return fmt.Errorf("%s is %w", Quote(text), ErrNotUTF8)
}

// CheckUTF8 is CheckText for a long text: the error has the index of the invalid byte.
func CheckUTF8(text []byte) error {
	if utf8.Valid(text) {
		return nil
	}
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return fmt.Errorf("byte %d, %#02x, is %w", at, text[at], ErrNotUTF8)
}

// UUID returns the text of a UUID of 16 bytes.
func UUID(id []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

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
			if v {
				return 1, nil
			}
			return 0, nil
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

// AppendNumber appends a number as JSON, in the shortest form that is unique in the number of bits; null if it is not finite.
func AppendNumber(dst []byte, v float64, bits int) []byte {
	if v-v != 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
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

// MaxScale limits the digits of a decimal number after its point, or the zeros before it, because more take too long.
const MaxScale = 1000

// Decimal returns the number unscaled·10^−scale, correctly rounded, like a text with its digits. scale is within ±[MaxScale].
func Decimal(unscaled *big.Int, scale int) float64 {
	if scale >= 0 && scale <= 22 && unscaled.CmpAbs(big.NewInt(maxWhole)) <= 0 { // exact in float64, so the quotient is correctly rounded
		return float64(unscaled.Int64()) / math.Pow10(scale)
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
	if scale < 0 {
		v, _ := new(big.Float).SetInt(power.Mul(unscaled, power)).Float64()
		return v
	}
	v, _ := new(big.Rat).SetFrac(unscaled, power).Float64()
	return v
}

// BigEndian returns an integer from its bytes in two's complement.
func BigEndian(digits []byte) *big.Int {
	n := new(big.Int).SetBytes(digits)
	if len(digits) > 0 && digits[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(digits))))
	}
	return n
}

// Word returns the word of a text in a categorical column: the text as spelt, without surrounding white space, because codes
// such as 1E2, 007, +1 and 3.10 are not numbers. Two spellings change: a boolean is the word true or false, and an integer
// that a program has written as a float, such as 1.0 of pandas, is the word 1.
func Word(text string) string {
	text = Label(text)
	number, isFloat := strings.CutSuffix(text, ".0")
	if text != "-0" && !isFloat || strings.ContainsAny(number, ".eE") || !isJSON(number) {
		return text
	}
	if number == "-0" {
		return "0"
	}
	return number
}

// maxWhole is the largest integer up to which float64 represents all integers.
const maxWhole = 1 << 53

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
	if strings.Trim(text, "0123456789") == "" && (len(text) == 1 || text[0] != '0') { // may be longer than any number type
		return text
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return WordOf(v)
}

// Half returns the float16 that is nearest to a number; infinity if it exceeds float16.
func Half(v float64) float64 {
	const most, digits, least = 65504, 11, -24 // the largest number, its binary digits, and the exponent of the smallest one above 0
	_, exponent := math.Frexp(v)
	ulp := math.Ldexp(1, max(exponent-digits, least))
	if half := math.RoundToEven(v/ulp) * ulp; math.Abs(half) <= most || v != v {
		return half
	}
	return math.Copysign(math.Inf(1), v)
}

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
	return text == "" || slices.Contains(m.words, text) || slices.Contains(m.words, Word(text))
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
