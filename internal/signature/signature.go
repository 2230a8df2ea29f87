// Package signature says what bytes are that hold no rows, or hold them in another form than expected, by how they begin, and turns text in
// other encodings into UTF-8:
//
//	first bytes ──Of──▶ what they are ──OfFile, OfValue──▶ what to do
//	bytes in latin-1, utf-16, … ──NewTextReader──▶ UTF-8
package signature

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Form is what bytes are, and how to get rows from them.
type Form struct {
	// Name says what they are, with an article if it needs one.
	Name string
	// Format is the value of examples.format for such files, Values that for such values of a topic; "": none.
	Format, Values string
	// Encoding is the value of examples.encoding for such a text; "": none is needed.
	Encoding string
	// Advice says what to do with a file, Send with a value of a topic, besides setting these keys.
	Advice, Send string
}

// Of returns the form of a file, given its first bytes, or of a value. ok is false if it is not in the table.
func Of(first []byte) (f Form, ok bool) {
	text, isText := begin(first), LooksLikeText(first)
	i := slices.IndexFunc(forms, func(s signature) bool {
		switch {
		case s.magic != "" && (isText || !bytes.HasPrefix(first, []byte(s.magic))): // the header of a CSV may start with ORC or PK
			return false
		case s.text != "" && (len(text) < len(s.text) || !strings.EqualFold(string(text[:len(s.text)]), s.text)):
			return false
		}
		return s.is == nil || s.is(first)
	})
	if i < 0 {
		return Form{}, false
	}
	return forms[i].Form, true
}

// OfFile says what to do with a file of this form; "" if the program reads it without keys. key is the name of a key under examples,
// as the user writes it.
func (f Form) OfFile(key func(name string) string) string { return f.do(key, f.Format, f.Advice) }

// OfValue says what to do with such values of a topic.
func (f Form) OfValue(key func(name string) string) string {
	send := f.Send
	if f.Values == "" && f.Encoding == "" {
		send = cmp.Or(send, sendRows)
	}
	return f.do(key, f.Values, send)
}

func (f Form) do(key func(name string) string, format, otherwise string) string {
	var ways []string
	for _, way := range [][2]string{{"format", format}, {"encoding", f.Encoding}} {
		if way[1] != "" {
			ways = append(ways, "set "+key(way[0])+": "+way[1])
		}
	}
	if otherwise != "" {
		ways = append(ways, otherwise)
	}
	return strings.Join(ways, ", or ")
}

// IsBinary reports whether bytes are no text in UTF-8 or in an encoding of single bytes.
func IsBinary(b []byte) bool {
	return bytes.IndexByte(b, 0) >= 0 || !LooksLikeText(b) && (!utf8.Valid(b) || !LooksLikeText(b[:min(len(b), 1)]))
}

// LooksLikeText reports whether all of the first bytes occur in text.
func LooksLikeText(first []byte) bool {
	return !bytes.ContainsFunc(first[:min(len(first), 512)], func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\r' && r != '\n' && r != '\f'
	})
}

// begin returns a text without the byte order mark and the spaces before it.
func begin(text []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\ufeff")), " \t\r\n")
}
