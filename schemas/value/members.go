package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
)

// Items returns the values of an array; nil for another value.
func (c Cell) Items() []Cell { return slices.Collect(c.All()) }

// All iterates over the values of an array, without memory for them. Another value has none.
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
		at = space(c, space(c, to)+1) // behind the colon
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
	keys [fewNames]uint32 // of the names in the list: others differ
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
