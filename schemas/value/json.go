package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrSurrogate reports an unpaired surrogate in a JSON string, such as \ud800, which is not valid text.
var ErrSurrogate = errors.New("an unpaired surrogate")

// CheckJSON returns an error unless a text is JSON (RFC 8259) whose strings are valid text. The error wraps [ErrNotUTF8]
// for invalid UTF-8, and [ErrSurrogate] for unpaired surrogates. encoding/json would replace both.
func CheckJSON(text []byte) error {
	if err := CheckUTF8(text); err != nil {
		return err
	}
	if !json.Valid(text) {
		return notJSON(json.Unmarshal(text, new(json.RawMessage)))
	}
	return CheckEscapes(text)
}

// notJSON returns an error with the position at which JSON ends or is invalid.
func notJSON(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		if strings.Contains(syntax.Error(), "unexpected end of JSON input") {
			return errors.New("not JSON: it ends too early")
		}
		return fmt.Errorf("not JSON: byte %d: %w", syntax.Offset, err)
	}
	return fmt.Errorf("not JSON: %w", err)
}

// CheckEscapes returns an error, which wraps [ErrSurrogate], if JSON has an escaped unpaired surrogate.
func CheckEscapes(text []byte) error {
	for at := 0; ; {
		next := bytes.IndexByte(text[at:], '\\')
		if next < 0 || at+next+1 >= len(text) {
			return nil
		}
		at += next
		unit, ok := escaped(text[at:])
		switch {
		case !ok:
			at += 2
		case unit < 0xd800 || unit > 0xdfff:
			at += 6
		default:
			second, ok := escaped(text[at+6:])
			if unit > 0xdbff || !ok || second < 0xdc00 || second > 0xdfff {
				return fmt.Errorf("byte %d: %s: %w", at, text[at:at+6], ErrSurrogate)
			}
			at += 12
		}
	}
}

// escaped returns the code unit of the escape \uXXXX at the beginning of a text.
func escaped(text []byte) (unit uint64, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 32)
	return unit, err == nil
}

// Cell is a JSON value that CheckJSON has accepted; nil, which is treated as null, if it is absent.
type Cell json.RawMessage

// Null reports whether a value is null or absent.
func (c Cell) Null() bool { return len(c) == 0 || string(c) == "null" }

// String returns a value for an error. It truncates long values.
func (c Cell) String() string {
	const maxBytes = 40
	switch {
	case c.Null():
		return "null"
	case c[0] == '{':
		return "an object"
	case c[0] == '[':
		return fmt.Sprintf("an array of %d", len(c.Items()))
	case len(c) > maxBytes:
		return strings.ToValidUTF8(string(c[:maxBytes]), "") + "…"
	}
	return string(c)
}

// boolean returns a value that is a boolean.
func (c Cell) boolean() (v, ok bool) {
	switch string(c) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// isText reports whether a value is a string.
func (c Cell) isText() bool { return len(c) > 0 && c[0] == '"' }

// text returns a string.
func (c Cell) text() string { return string(c.Name()) }

// Number returns a number, or NaN if it is missing: a JSON number, a boolean, which is 0 or 1, or a string with either.
func (c Cell) Number(missing Missing) (float64, error) {
	if len(c) > 0 && (c[0] == '-' || c[0]-'0' <= 9) { // the usual case, first
		if v, err := strconv.ParseFloat(string(c), 64); err == nil {
			return missing.OrNaN(v), nil
		}
	}
	switch v, ok := c.boolean(); {
	case c.Null():
		return math.NaN(), nil
	case ok:
		return ofBoolean(v), nil
	case c.isText():
		return missing.Number(c.text())
	case c[0] == '{' || c[0] == '[':
		return 0, fmt.Errorf("%s: expected a number", c)
	}
	v, err := Number(string(c))
	return missing.OrNaN(v), err
}

// Whole returns a number that is written as an integer and fits int64.
func (c Cell) Whole() (int64, error) {
	v, err := strconv.ParseInt(string(c), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number that fits int64", c)
	}
	return v, nil
}

// Text returns a string unchanged, or the word of a number or a boolean; "" for null.
func (c Cell) Text() (string, error) {
	switch v, ok := c.boolean(); {
	case c.Null():
		return "", nil
	case c.isText():
		return c.text(), nil
	case ok:
		return WordOfBoolean(v), nil
	case c[0] == '{' || c[0] == '[':
		return "", fmt.Errorf("%s: expected a number or a text", c)
	}
	return WordOfLiteral(string(c)), nil
}

// WordOfLiteral returns the word of a JSON number.
func WordOfLiteral(number string) string {
	if whole, fraction, _ := strings.Cut(number, "."); strings.Trim(fraction, "0") == "" && !strings.ContainsAny(whole, "eE") {
		return withoutSign(whole) // an integer of any length
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return number
	}
	return WordOf(v)
}

// Field returns a value as in CSV: a string, or the literal of a number or a boolean; "" for null. Arrays and objects are
// errors.
func (c Cell) Field() (string, error) {
	if c.Null() || c.isText() || c[0] == '{' || c[0] == '[' {
		return c.Text()
	}
	return string(c), nil
}
