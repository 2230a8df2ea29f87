package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	if at, ok := scan(text, space(text, 0), maxDepth); ok && space(text, at) == len(text) {
		return checkEscapes(text)
	}
	err := json.Unmarshal(text, new(json.RawMessage)) // which knows the position
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case !ok:
		return fmt.Errorf("not JSON: %w", err)
	case strings.Contains(syntax.Error(), "unexpected end of JSON input"):
		return errors.New("not JSON: it ends too early")
	}
	return fmt.Errorf("not JSON: byte %d: %w", syntax.Offset, err)
}

// checkEscapes returns an error, which wraps [ErrSurrogate], if JSON has an escaped unpaired surrogate.
func checkEscapes(text []byte) error {
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
		n := 0
		for range c.All() {
			n++
		}
		return fmt.Sprintf("an array of %d", n)
	case len(c) > maxBytes:
		return strings.ToValidUTF8(string(c[:maxBytes]), "") + "…"
	}
	return string(c)
}

// Number returns a JSON number. ok is false if it is out of range.
func (c Cell) Number() (v float64, ok bool) {
	v, err := strconv.ParseFloat(string(c), 64)
	return v, err == nil
}
