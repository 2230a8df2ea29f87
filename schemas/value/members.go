package value

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Items returns the values of an array; nil if the value is not an array.
func (c Cell) Items() (items []Cell) {
	if c.Null() || c[0] != '[' {
		return nil
	}
	items = []Cell{}
	for at := space(c, 1); c[at] != ']'; {
		to := end(c, at)
		items = append(items, c[at:to])
		if at = space(c, to); c[at] == ',' {
			at = space(c, at+1)
		}
	}
	return items
}

// Members calls put with each member of an object that CheckJSON has accepted, in order. It is an error if the value is
// not an object, or has two members with the same name, because either could be meant.
func (c Cell) Members(put func(name string, value Cell) error) error {
	return c.Each(func(name []byte, value Cell) error { return put(string(name), value) })
}

// Each is Members without copying names: a name shares the memory of the value.
func (c Cell) Each(put func(name []byte, value Cell) error) error {
	if len(c) == 0 || c[0] != '{' {
		return fmt.Errorf("%s is not an object", c)
	}
	var names nameSet
	for at := space(c, 1); c[at] != '}'; {
		to := end(c, at)
		name := nameOf(c[at:to])
		if names.has(name) {
			return fmt.Errorf("duplicate column %s", Quote(string(name)))
		}
		at = space(c, space(c, to)+1) // behind the colon
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

// nameOf returns the text of a JSON string.
func nameOf(quoted Cell) []byte {
	for _, b := range quoted {
		if b == '\\' {
			var name string
			_ = json.Unmarshal(quoted, &name) // CheckJSON has accepted it
			return []byte(name)
		}
	}
	return quoted[1 : len(quoted)-1]
}

// space returns the end of the white space at an index of a value.
func space(c Cell, at int) int {
	for c[at] == ' ' || c[at] == '\t' || c[at] == '\n' || c[at] == '\r' {
		at++
	}
	return at
}

// end returns the end of the value that begins at an index of another value, which CheckJSON has accepted.
func end(c Cell, at int) int {
	depth := 0
	for ; at < len(c); at++ {
		switch c[at] {
		case '"':
			for at++; c[at] != '"'; at++ {
				if c[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return at // end of the object or array that contains the value
			}
			if depth == 0 {
				return at + 1
			}
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return at
			}
		}
	}
	return at
}

// fewNames is the number of names up to which a list is faster than a map.
const fewNames = 32

// nameSet is a set of names of members of an object: a list while there are few.
type nameSet struct {
	n    int
	few  [fewNames][]byte
	many map[string]bool
}

// has reports whether the set has a name, and adds it.
func (s *nameSet) has(name []byte) bool {
	if s.many == nil {
		for _, other := range s.few[:s.n] {
			if bytes.Equal(other, name) {
				return true
			}
		}
		if s.n < fewNames {
			s.few[s.n] = name
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
