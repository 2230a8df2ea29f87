package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/value"
)

// scanner scans JSON (RFC 8259) in memory, in one pass. encoding/json takes five times as long for rows of numbers, and more
// memory than the rows.
type scanner struct {
	text []byte
	at   int // number of bytes read
}

// maxDepth is the maximum number of values that a value is within, as in encoding/json.
const maxDepth = 10_000

// newScanner returns a scanner of a text, without its byte order mark, as for files. Invalid UTF-8 is an error, since it can't
// match a word used in training.
func newScanner(text []byte) (scanner, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	return scanner{text: text}, value.CheckUTF8(text)
}

// errorf returns an error at the scanner's position.
func (s *scanner) errorf(format string, values ...any) error {
	return fmt.Errorf("byte %d: %s", s.at, fmt.Sprintf(format, values...))
}

// peek skips space and returns the next byte, which is 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// expect skips space and a byte, which must be c.
func (s *scanner) expect(c byte) error {
	if s.peek() != c || s.at == len(s.text) {
		return s.expected(string(rune(c)))
	}
	s.at++
	return nil
}

// expected returns an error with what is expected at the scanner's position, and what is there.
func (s *scanner) expected(what string) error {
	switch found := s.peek(); {
	case s.at == len(s.text):
		return s.errorf("the JSON ends, expected %s", what)
	case found < utf8.RuneSelf && strconv.IsPrint(rune(found)):
		return s.errorf("found %c, expected %s", found, what)
	}
	return s.errorf("found byte %#02x, expected %s", s.text[s.at], what)
}

// more consumes a comma and returns true, or consumes the end of a list or an object and returns false. first means that no
// comma is expected.
func (s *scanner) more(end byte, first bool) (bool, error) {
	switch c := s.peek(); {
	case c == end && s.at < len(s.text):
		s.at++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		s.at++
		return true, nil
	}
	return false, s.expected("a comma or " + string(rune(end)))
}

// elements reads a list, and calls put at each element, with its index.
func (s *scanner) elements(put func(i int) error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	for i := 0; ; i++ {
		there, err := s.more(']', i == 0)
		if err != nil || !there {
			return err
		}
		if err := put(i); err != nil {
			return err
		}
	}
}

// members reads an object, and calls put after each colon, with the name.
func (s *scanner) members(put func(name []byte) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		there, err := s.more('}', first)
		if err != nil || !there {
			return err
		}
		quoted, err := s.string()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := put(quoted.Name()); err != nil {
			return err
		}
	}
}

// once returns an error for a name that is known, and adds it.
func (s *scanner) once(known *value.Names, name []byte) error {
	if known.Has(name) {
		return s.errorf("duplicate member %.40q", name)
	}
	return nil
}

// value reads a value of any type.
func (s *scanner) value() (value.Cell, error) {
	switch c := s.peek(); c {
	case '"':
		return s.string()
	case '{', '[':
		start := s.at
		err := s.skip()
		return s.text[start:s.at], err
	case 't', 'f', 'n':
		for _, word := range []string{"true", "false", "null"} {
			if bytes.HasPrefix(s.text[s.at:], []byte(word)) {
				s.at += len(word)
				return s.text[s.at-len(word) : s.at], nil
			}
		}
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number()
	}
	return nil, s.expected("a value")
}

// skip skips a value of any type. Names within it are not compared. A recursion would make the stack as deep as the value.
func (s *scanner) skip() error {
	var ends []byte // of the lists and the objects that are open
	for {
		first := false
		switch c := s.peek(); c {
		case '{', '[':
			if len(ends) == maxDepth {
				return s.errorf("more than %d values within each other", maxDepth)
			}
			ends, first = append(ends, c+2), true // } follows { by two in ASCII, as ] follows [
			s.at++
		default:
			if _, err := s.value(); err != nil {
				return err
			}
		}
		for there := false; !there; first = false {
			if len(ends) == 0 {
				return nil
			}
			end := ends[len(ends)-1]
			var err error
			if there, err = s.more(end, first); err != nil {
				return err
			}
			if !there {
				ends = ends[:len(ends)-1]
				continue
			}
			if end == '}' {
				if _, err := s.string(); err != nil {
					return err
				}
				if err := s.expect(':'); err != nil {
					return err
				}
			}
		}
	}
}

// number reads a number.
func (s *scanner) number() (value.Cell, error) {
	start := s.at
	s.skipByte('-')
	if !s.skipByte('0') && s.digits() == 0 {
		return nil, s.expected("a digit")
	}
	if s.skipByte('.') && s.digits() == 0 {
		return nil, s.expected("a digit")
	}
	if s.skipByte('e') || s.skipByte('E') {
		if !s.skipByte('-') {
			s.skipByte('+')
		}
		if s.digits() == 0 {
			return nil, s.expected("a digit")
		}
	}
	return s.text[start:s.at], nil
}

func (s *scanner) skipByte(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) digits() int {
	start := s.at
	for s.at < len(s.text) && s.text[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at - start
}

// integer reads an integer in a list that is exact in float32. ok is false if there is none.
func (s *scanner) integer() (v float64, ok bool) {
	at, whole := s.at, 0
	for at < len(s.text) && s.text[at]-'0' <= 9 && at-s.at < 7 {
		whole = 10*whole + int(s.text[at]-'0')
		at++
	}
	if n := at - s.at; n == 0 || at == len(s.text) || n > 1 && s.text[s.at] == '0' || s.text[at] != ',' && s.text[at] != ']' {
		return 0, false
	}
	s.at = at
	return float64(whole), true
}

// string reads a string.
func (s *scanner) string() (value.Cell, error) {
	if s.peek() != '"' {
		return nil, s.expected("a string")
	}
	start, plain := s.at, true
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			quoted := s.text[start:s.at]
			if plain {
				return quoted, nil
			}
			err := value.CheckEscapes(quoted)
			if err == nil && !json.Valid(quoted) {
				err = errors.New("an invalid escape in a string")
			}
			if err != nil {
				s.at = start
				err = s.errorf("%v", err)
			}
			return quoted, err
		case c == '\\':
			plain = false
			s.at++
		case c < ' ':
			return nil, s.errorf("a string with the byte %#02x: expected an escape", c)
		}
	}
	return nil, s.errorf("the JSON ends within a string")
}

// part is a value at a position, in which columns are found while it is scanned.
type part struct {
	*scanner
	start int
}

// Kind implements message.Walked.
func (p part) Kind() message.Kind {
	switch p.text[p.start] {
	case '{':
		return message.Object
	case '[':
		return message.List
	}
	return message.Scalar
}

// Parts implements message.Walked.
func (p part) Parts(at *message.Step, put func(at *message.Step, part part) error) error {
	p.at = p.start
	read := func(step *message.Step) error {
		p.peek()
		start := p.at
		err := put(step, part{p.scanner, start})
		if err == nil && p.at == start { // nothing has read it
			err = p.skip()
		}
		return err
	}
	if p.Kind() == message.Object {
		var others *value.Names // the paths know the others
		return p.members(func(name []byte) error {
			step := at.Named(name)
			if step != nil {
				return read(step)
			}
			if others == nil {
				others = &value.Names{}
			}
			if err := p.once(others, name); err != nil {
				return err
			}
			return p.skip()
		})
	}
	return p.elements(func(i int) error {
		for _, step := range at.Below {
			if step.Index == i {
				return read(step)
			}
		}
		return p.skip()
	})
}

// read reads the value.
func (p part) read() (value.Cell, error) {
	p.at = p.start
	return p.value()
}
