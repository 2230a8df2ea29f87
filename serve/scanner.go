package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// scanner reads JSON (RFC 8259) that is in memory. encoding/json takes five times as long for rows of numbers, and more memory than the rows.
type scanner struct {
	text []byte
	at   int
}

// errorf returns an error at the scanner's place.
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

// take skips space and a byte, which must be the next one.
func (s *scanner) take(c byte) error {
	if s.peek() != c || s.at == len(s.text) {
		return s.expected(string(rune(c)))
	}
	s.at++
	return nil
}

func (s *scanner) expected(what string) error {
	switch found := s.peek(); {
	case s.at == len(s.text):
		return s.errorf("the JSON ends, expected %s", what)
	case found < utf8.RuneSelf && strconv.IsPrint(rune(found)):
		return s.errorf("found %c, expected %s", found, what)
	}
	return s.errorf("found byte %#02x, expected %s", s.text[s.at], what)
}

// more takes a comma and returns true, or takes the end of a list or an object and returns false. first says that no comma comes before the
// first element.
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

// elements reads a list, and calls put at each element, with its number.
func (s *scanner) elements(put func(i int) error) error {
	if err := s.take('['); err != nil {
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

// members reads an object, and calls put at each colon, with the name before it, which is valid until the text changes.
func (s *scanner) members(put func(name []byte) error) error {
	if err := s.take('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		there, err := s.more('}', first)
		if err != nil || !there {
			return err
		}
		name, err := s.string()
		if err != nil {
			return err
		}
		if err := put(name); err != nil {
			return err
		}
	}
}

// float reads a number as a finite float32.
func (s *scanner) float() (float32, error) {
	s.peek()
	start, whole := s.at, 0
	for s.at < len(s.text) && s.text[s.at]-'0' <= 9 && s.at-start < 7 { // a whole number that float32 has exactly
		whole = 10*whole + int(s.text[s.at]-'0')
		s.at++
	}
	if n := s.at - start; s.at < len(s.text) && n > 0 && (n == 1 || s.text[start] != '0') {
		if c := s.text[s.at]; c == ',' || c == ']' {
			return float32(whole), nil
		}
	}
	s.at = start
	text, err := s.number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(string(text), 32)
	if err != nil || math.IsInf(v, 0) {
		s.at = start
		return 0, s.errorf("%.40s is too large for a float32", text)
	}
	return float32(v), nil
}

// number reads a number and returns its text.
func (s *scanner) number() ([]byte, error) {
	s.peek()
	start := s.at
	s.skipByte('-')
	if !s.skipByte('0') && s.digits() == 0 {
		s.at = start
		return nil, s.expected("a number")
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

// string reads a string. The bytes are valid until the text changes.
func (s *scanner) string() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.expected("a string")
	}
	start, plain := s.at, true
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			quoted := s.text[start:s.at]
			if inner := quoted[1 : len(quoted)-1]; plain && utf8.Valid(inner) {
				return inner, nil
			}
			var text string
			if err := json.Unmarshal(quoted, &text); err != nil {
				s.at = start
				return nil, s.errorf("a string that is no JSON: %v", err)
			}
			return []byte(text), nil
		case c == '\\':
			plain = false
			s.at++
		case c < ' ':
			return nil, s.errorf("a string with the byte %#02x: expected an escape", c)
		}
	}
	return nil, s.errorf("the JSON ends in a string")
}

// null reads null, if it is the next value.
func (s *scanner) null() bool {
	s.peek()
	if bytes.HasPrefix(s.text[s.at:], []byte("null")) {
		s.at += len("null")
		return true
	}
	return false
}

// skip skips a value, of whatever kind.
func (s *scanner) skip() error {
	d := json.NewDecoder(bytes.NewReader(s.text[s.at:]))
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			s.at += int(syntax.Offset)
		}
		return s.errorf("%v", err)
	}
	s.at += int(d.InputOffset())
	return nil
}

// end returns an error unless only space follows.
func (s *scanner) end() error {
	if s.peek(); s.at < len(s.text) {
		return s.expected("nothing more")
	}
	return nil
}
