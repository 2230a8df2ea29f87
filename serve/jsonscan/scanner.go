package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas/value"
)

// New returns a scanner of a text, without its byte order mark, as for files. Invalid UTF-8 is an error, since it can't match a word used
// in training.
func New(text []byte) (Scanner, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if err := value.CheckUTF8(text); err != nil {
		return Scanner{}, err
	}
	return Scanner{text: text}, nil
}

// Scanner scans JSON (RFC 8259) in memory. encoding/json takes five times as long for rows of numbers, and more memory
// than the rows. The decoder of github.com/go-json-experiment/json/jsontext takes 3.4 ms for 64 rows of 784 pixels, if
// each number is read as a value and parsed as here, and 7.0 ms by tokens; the scanner takes 1.4. A request with these
// rows takes 2.4 ms in total (BenchmarkPredict), so it would take nearly twice as long.
type Scanner struct {
	text []byte
	At   int // number of bytes read
}

// Errorf returns an error at the scanner's position.
func (s *Scanner) Errorf(format string, values ...any) error {
	return fmt.Errorf("byte %d: %s", s.At, fmt.Sprintf(format, values...))
}

// Between returns the text between two positions.
func (s *Scanner) Between(from, to int) []byte { return s.text[from:to] }

// Peek skips space and returns the next byte, which is 0 at the end.
func (s *Scanner) Peek() byte {
	for ; s.At < len(s.text); s.At++ {
		switch c := s.text[s.At]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// Expect skips space and a byte, which must be c.
func (s *Scanner) Expect(c byte) error {
	if s.Peek() != c || s.At == len(s.text) {
		return s.Expected(string(rune(c)))
	}
	s.At++
	return nil
}

// Expected returns an error with what is expected at the scanner's position, and what is there.
func (s *Scanner) Expected(what string) error {
	switch found := s.Peek(); {
	case s.At == len(s.text):
		return s.Errorf("the JSON ends, expected %s", what)
	case found < utf8.RuneSelf && strconv.IsPrint(rune(found)):
		return s.Errorf("found %c, expected %s", found, what)
	}
	return s.Errorf("found byte %#02x, expected %s", s.text[s.At], what)
}

// More consumes a comma and returns true, or consumes the end of a list or object and returns false. first means that no
// comma is expected.
// first element.
func (s *Scanner) More(end byte, first bool) (bool, error) {
	switch c := s.Peek(); {
	case c == end && s.At < len(s.text):
		s.At++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		s.At++
		return true, nil
	}
	return false, s.Expected("a comma or " + string(rune(end)))
}

// Elements reads a list, and calls put at each element, with its index.
func (s *Scanner) Elements(put func(i int) error) error {
	if err := s.Expect('['); err != nil {
		return err
	}
	for i := 0; ; i++ {
		there, err := s.More(']', i == 0)
		if err != nil || !there {
			return err
		}
		if err := put(i); err != nil {
			return err
		}
	}
}

// Members reads an object, and calls put after each colon, with the name, which is valid until the text changes.
func (s *Scanner) Members(put func(name []byte) error) error {
	if err := s.Expect('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		there, err := s.More('}', first)
		if err != nil || !there {
			return err
		}
		name, err := s.String()
		if err != nil {
			return err
		}
		if err := put(name); err != nil {
			return err
		}
	}
}

// Float reads a number that is finite as a float32. A boolean is 0 or 1.
func (s *Scanner) Float() (float64, error) {
	s.Peek()
	start, whole := s.At, 0
	for s.At < len(s.text) && s.text[s.At]-'0' <= 9 && s.At-start < 7 { // an integer that is exact in float32
		whole = 10*whole + int(s.text[s.At]-'0')
		s.At++
	}
	if n := s.At - start; s.At < len(s.text) && n > 0 && (n == 1 || s.text[start] != '0') {
		if c := s.text[s.At]; c == ',' || c == ']' {
			return float64(whole), nil
		}
	}
	s.At = start
	if v, ok := s.Boolean(); ok {
		if v {
			return 1, nil
		}
		return 0, nil
	}
	text, err := s.Number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsInf(float64(float32(v)), 0) {
		s.At = start
		return 0, s.Errorf("%.40s is too large for a float32", text)
	}
	return v, nil
}

// Number reads a number and returns its text.
func (s *Scanner) Number() ([]byte, error) {
	s.Peek()
	start := s.At
	s.skipByte('-')
	if !s.skipByte('0') && s.digits() == 0 {
		s.At = start
		return nil, s.Expected("a number")
	}
	if s.skipByte('.') && s.digits() == 0 {
		return nil, s.Expected("a digit")
	}
	if s.skipByte('e') || s.skipByte('E') {
		if !s.skipByte('-') {
			s.skipByte('+')
		}
		if s.digits() == 0 {
			return nil, s.Expected("a digit")
		}
	}
	return s.text[start:s.At], nil
}

func (s *Scanner) skipByte(c byte) bool {
	if s.At < len(s.text) && s.text[s.At] == c {
		s.At++
		return true
	}
	return false
}

func (s *Scanner) digits() int {
	start := s.At
	for s.At < len(s.text) && s.text[s.At]-'0' <= 9 {
		s.At++
	}
	return s.At - start
}

// String reads a string. The bytes are valid until the text changes.
func (s *Scanner) String() ([]byte, error) {
	if s.Peek() != '"' {
		return nil, s.Expected("a string")
	}
	start, plain := s.At, true
	for s.At++; s.At < len(s.text); s.At++ {
		switch c := s.text[s.At]; {
		case c == '"':
			s.At++
			quoted := s.text[start:s.At]
			if plain {
				return quoted[1 : len(quoted)-1], nil
			}
			var text string
			if err := value.CheckEscapes(quoted); err != nil {
				s.At = start
				return nil, s.Errorf("%v", err)
			}
			if err := json.Unmarshal(quoted, &text); err != nil {
				s.At = start
				return nil, s.Errorf("an invalid JSON string: %v", err)
			}
			return []byte(text), nil
		case c == '\\':
			plain = false
			s.At++
		case c < ' ':
			return nil, s.Errorf("a string with the byte %#02x: expected an escape", c)
		}
	}
	return nil, s.Errorf("the JSON ends within a string")
}

// Names are the names in an object or a list of columns. A duplicate is an error, because it would be ambiguous.
type Names map[string]bool

// maxNames is the maximum number of names, whose memory is in addition to the body.
const maxNames = 1 << 16

// Once records a name. of describes it in the error for a duplicate.
func (s *Scanner) Once(known *Names, of string, name []byte) error {
	switch {
	case (*known)[string(name)]:
		return s.Errorf("duplicate %s %.40q", of, name)
	case len(*known) == maxNames:
		return s.Errorf("more than %d other %ss: omit them", maxNames, of)
	case *known == nil:
		*known = Names{}
	}
	(*known)[string(name)] = true
	return nil
}

// Null reads null, if it is the next value.
func (s *Scanner) Null() bool { return s.Literal("null") }

// Boolean reads true or false, if it is the next value.
func (s *Scanner) Boolean() (v, ok bool) {
	if s.Literal("true") {
		return true, true
	}
	return false, s.Literal("false")
}

// Literal reads a JSON literal, if it is the next value.
func (s *Scanner) Literal(word string) bool {
	s.Peek()
	if bytes.HasPrefix(s.text[s.At:], []byte(word)) {
		s.At += len(word)
		return true
	}
	return false
}

// Skip skips a value of any type.
func (s *Scanner) Skip() error {
	d := json.NewDecoder(bytes.NewReader(s.text[s.At:]))
	var skipped json.RawMessage
	if err := d.Decode(&skipped); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			s.At += int(syntax.Offset)
		}
		return s.Errorf("%v", err)
	}
	if err := value.CheckEscapes(skipped); err != nil {
		return s.Errorf("%v", err)
	}
	s.At += int(d.InputOffset())
	return nil
}

// End returns an error unless only space follows.
func (s *Scanner) End() error {
	if s.Peek(); s.At < len(s.text) {
		return s.Expected("nothing more")
	}
	return nil
}
