package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrSurrogate reports an unpaired surrogate in a JSON string, such as \ud800, which is not valid text.
var ErrSurrogate = errors.New("an unpaired surrogate")

// CheckJSON returns an error unless a text is JSON (RFC 8259) whose strings are valid text. The error wraps [ErrNotUTF8]
// for invalid UTF-8, and [ErrSurrogate] for unpaired surrogates. encoding/json would replace both.
func CheckJSON(text []byte) error {
	if err := CheckUTF8(text); err != nil {
		return err
	}
	at, ok := scan(text, space(text, 0), maxDepth)
	if ok && space(text, at) == len(text) {
		return nil
	}
	err := json.Unmarshal(text, new(json.RawMessage)) // its error has the position
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case err == nil:
		return fmt.Errorf("byte %d: %s: %w", at, text[at:at+6], ErrSurrogate)
	case !ok:
		return fmt.Errorf("not JSON: %w", err)
	case strings.Contains(syntax.Error(), "unexpected end of JSON input"):
		return errors.New("not JSON: it ends too early")
	}
	return fmt.Errorf("not JSON: byte %d: %w", syntax.Offset, err)
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

// Items returns the values of an array; nil for another value.
func (c Cell) Items() []Cell { return slices.Collect(c.All()) }

// All iterates over the values of an array, without allocating a list of them. Another value has none.
func (c Cell) All() iter.Seq[Cell] {
	return func(yield func(Cell) bool) {
		if c.Null() || c[0] != '[' {
			return
		}
		for at := space(c, 1); c[at] != ']'; {
			to, _ := scan(c, at, maxDepth)
			if !yield(c[at:to]) {
				return
			}
			if at = space(c, to); c[at] == ',' {
				at = space(c, at+1)
			}
		}
	}
}

// Each calls put with each member of an object that CheckJSON has accepted, in order. A name may share the memory of the value. It is an
// error if the value is not an object, or has two members with the same name, because either could be meant.
func (c Cell) Each(put func(name []byte, value Cell) error) error {
	if len(c) == 0 || c[0] != '{' {
		return fmt.Errorf("%s is not an object", c)
	}
	var names Names
	for at := space(c, 1); c[at] != '}'; {
		to, _ := scan(c, at, maxDepth)
		name := c[at:to].Name()
		if names.Has(name) {
			return fmt.Errorf("duplicate member %s", Quote(string(name)))
		}
		at = space(c, space(c, to)+1) // after the colon
		to, _ = scan(c, at, maxDepth)
		if err := put(name, c[at:to]); err != nil {
			return err
		}
		if at = space(c, to); c[at] == ',' {
			at = space(c, at+1)
		}
	}
	return nil
}

// Name returns the text of a JSON string. It shares the memory of the value if there are no escapes.
func (c Cell) Name() []byte {
	if bytes.IndexByte(c, '\\') < 0 {
		return c[1 : len(c)-1]
	}
	var name string
	_ = json.Unmarshal(c, &name) // CheckJSON has accepted it
	return []byte(name)
}

// space returns the end of the white space at an index of a text.
func space(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
		at++
	}
	return at
}

// fewNames is the number of names up to which a list is faster than a map.
const fewNames = 32

// Names is a set of names of members of an object: a list while there are few. The zero value has none.
type Names struct {
	n    int
	keys [fewNames]uint32 // of the names in the list: names with other keys differ
	few  [fewNames][]byte
	many map[string]bool
}

// Has reports whether the set has a name, and adds it. A name must not change afterwards.
func (s *Names) Has(name []byte) bool {
	if s.many == nil {
		key := uint32(len(name)) << 16
		if n := len(name); n > 0 {
			key |= uint32(name[n/2])<<8 | uint32(name[n-1])
		}
		for i, other := range s.keys[:s.n] {
			if other == key && bytes.Equal(s.few[i], name) {
				return true
			}
		}
		if s.n < fewNames {
			s.keys[s.n], s.few[s.n] = key, name
			s.n++
			return false
		}
		s.many = map[string]bool{}
		for _, other := range s.few {
			s.many[string(other)] = true
		}
	}
	if s.many[string(name)] {
		return true
	}
	s.many[string(name)] = true
	return false
}

// maxDepth is the maximum depth of objects and arrays, which is that of package json.
const maxDepth = 10_000

// scan returns the end of the JSON value that begins at an index. ok is false if the text is not JSON, or has an unpaired
// surrogate, and end is then the position of the error. It takes a fraction of the time of
// [json.Valid], which matters for requests with many numbers.
func scan(text []byte, at, depth int) (end int, ok bool) {
	if at == len(text) {
		return at, false
	}
	switch c := text[at]; {
	case c == '{' || c == '[':
		return validList(text, at, depth)
	case c == '"':
		return validString(text, at)
	case c == '-' || c-'0' <= 9:
		return validNumber(text, at)
	}
	for _, literal := range []string{"null", "true", "false"} {
		if to := at + len(literal); to <= len(text) && string(text[at:to]) == literal {
			return to, true
		}
	}
	return at, false
}

// validList returns the end of an object or an array.
func validList(text []byte, at, depth int) (end int, ok bool) {
	object, closing := text[at] == '{', text[at]+2 // in ASCII
	if at = space(text, at+1); depth == 0 || at == len(text) {
		return at, false
	}
	if text[at] == closing {
		return at + 1, true
	}
	for {
		if object {
			if at == len(text) || text[at] != '"' {
				return at, false
			}
			if at, ok = validString(text, at); !ok {
				return at, false
			}
			if at = space(text, at); at == len(text) || text[at] != ':' {
				return at, false
			}
			at = space(text, at+1)
		}
		for !object { // over small whole numbers, such as pixels
			to := validDigits(text, at)
			if to == at || to == len(text) || text[to] != ',' || text[at] == '0' && to > at+1 {
				break
			}
			at = to + 1
		}
		at = space(text, at)
		if at, ok = scan(text, at, depth-1); !ok {
			return at, false
		}
		if at = space(text, at); at == len(text) || text[at] != ',' {
			return at + 1, at < len(text) && text[at] == closing
		}
		at = space(text, at+1)
	}
}

// validString returns the end of a string.
func validString(text []byte, at int) (end int, ok bool) {
	for at++; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			return at + 1, true
		case c < ' ':
			return at, false
		case c != '\\':
		case at+1 == len(text):
			return at, false
		case text[at+1] == 'u':
			n := validEscape(text[at:])
			if n == 0 {
				return at, false
			}
			at += n - 1
		default:
			switch at++; text[at] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			default:
				return at, false
			}
		}
	}
	return at, false
}

// validEscape returns the length of the escape \uXXXX at the beginning of a text, or of both of a pair of surrogates; 0: there is none.
func validEscape(text []byte) int {
	first, ok := escaped(text)
	if ok && !utf16.IsSurrogate(first) {
		return 6
	}
	if second, paired := escaped(text[min(6, len(text)):]); ok && paired && utf16.DecodeRune(first, second) != utf8.RuneError {
		return 12
	}
	return 0
}

// escaped returns the code unit of the escape \uXXXX at the beginning of a text.
func escaped(text []byte) (unit rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 32)
	return rune(n), err == nil
}

// validNumber returns the end of a number.
func validNumber(text []byte, at int) (end int, ok bool) {
	if text[at] == '-' {
		at++
	}
	from := at
	if at = validDigits(text, at); at == from || text[from] == '0' && at > from+1 {
		return at, false
	}
	if at < len(text) && text[at] == '.' {
		from = at + 1
		if at = validDigits(text, from); at == from {
			return at, false
		}
	}
	if at < len(text) && text[at]|0x20 == 'e' {
		if at++; at < len(text) && (text[at] == '+' || text[at] == '-') {
			at++
		}
		from = at
		if at = validDigits(text, from); at == from {
			return at, false
		}
	}
	return at, true
}

// validDigits returns the end of the digits at an index.
func validDigits(text []byte, at int) int {
	for at < len(text) && text[at]-'0' <= 9 {
		at++
	}
	return at
}
