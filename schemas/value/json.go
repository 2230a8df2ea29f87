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

	"github.com/go-json-experiment/json/jsontext"
)

// ErrSurrogate reports an unpaired surrogate in a JSON string, such as \ud800, which is not valid text.
var ErrSurrogate = errors.New("an unpaired surrogate")

// CheckJSON returns an error unless a text is JSON (RFC 8259) whose strings are valid text. The error wraps [ErrNotUTF8]
// for invalid UTF-8, and [ErrSurrogate] for unpaired surrogates. encoding/json would replace both.
func CheckJSON(text []byte) error {
	if err := CheckUTF8(text); err != nil {
		return err
	}
	strict := jsontext.AllowDuplicateNames(true) // which are an error only in objects that are read
	if jsontext.Value(text).IsValid(strict) {
		return nil
	}
	err := json.Unmarshal(text, new(json.RawMessage)) // its error has the position
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case err == nil:
		refused := &jsontext.SyntacticError{}
		if _, err = jsontext.NewDecoder(bytes.NewReader(text), strict).ReadValue(); !errors.As(err, &refused) {
			return err
		}
		at := int(refused.ByteOffset)
		return fmt.Errorf("byte %d: %s: %w", at, text[at:min(at+6, len(text))], ErrSurrogate)
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
			to := end(c, at)
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
		to := end(c, at)
		name := c[at:to].Name()
		if names.Has(name) {
			return fmt.Errorf("duplicate member %s", Quote(string(name)))
		}
		at = space(c, space(c, to)+1) // after the colon
		to = end(c, at)
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

// end returns the end of the value at an index of valid JSON.
func end(text []byte, at int) int {
	for depth := 0; ; at++ {
		switch text[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		case '"':
			for at++; text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		default:
			for depth == 0 {
				if at++; at == len(text) || text[at] <= ' ' || text[at] == ',' || text[at] == '}' || text[at] == ']' {
					return at
				}
			}
		}
	}
}
