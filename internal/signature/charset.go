package signature

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// named returns the encoding of a name of the IANA, or of one that people and Python write; nil if there is none.
func named(name string) encoding.Encoding {
	switch name = strings.ToLower(strings.ReplaceAll(name, "_", "-")); name {
	case "utf-16", "utf16":
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM) // without a mark it is what Windows writes
	case "latin-1", "latin":
		name = "latin1"
	case "utf8":
		name = "utf-8"
	case "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258":
		name = "windows-" + name[2:]
	case "sjis", "shift-jis":
		name = "shift_jis"
	}
	for _, form := range []string{name, strings.ReplaceAll(name, "-", "_")} {
		if e, err := ianaindex.IANA.Encoding(form); err == nil && e != nil {
			return e
		}
	}
	return nil
}

// IsEncoding reports whether an encoding has that name.
func IsEncoding(name string) bool { return named(name) != nil }

// EncodingError says that bytes are not in the encoding that they are said to be in.
type EncodingError struct{ Encoding string }

// Error implements error.
func (e *EncodingError) Error() string {
	return fmt.Sprintf("bytes that are not text in %s", e.Encoding)
}

// NewTextReader returns a reader of the same text in UTF-8. It returns an *EncodingError for bytes that are not in the
// encoding, which must be known.
func NewTextReader(from io.Reader, name string) io.Reader {
	e := named(name)
	if e == nil {
		panic("charset: unknown encoding " + name)
	}
	return transform.NewReader(from, transform.Chain(e.NewDecoder(), strict{name: name}))
}

// strict passes UTF-8 on, but for the character that decoders write for what they can't decode.
type strict struct {
	transform.NopResetter
	name string
}

// Transform implements [transform.Transformer].
func (s strict) Transform(dst, src []byte, atEOF bool) (written, read int, err error) {
	written, read, err = encoding.UTF8Validator.Transform(dst, src, atEOF)
	if errors.Is(err, encoding.ErrInvalidUTF8) || bytes.Contains(dst[:written], []byte("\ufffd")) {
		return 0, read, &EncodingError{s.name}
	}
	return written, read, err
}

// DecodeText returns the text of bytes in an encoding, which must be known, as UTF-8. The error is an *EncodingError.
func DecodeText(text []byte, name string) ([]byte, error) {
	return io.ReadAll(NewTextReader(bytes.NewReader(text), name))
}

// SniffEncoding returns the encoding in which a text must be, given its first bytes: utf-16, utf-16le or utf-16be; "": nothing
// tells, or it is UTF-8.
func SniffEncoding(first []byte) string {
	if bytes.HasPrefix(first, []byte("\xff\xfe")) || bytes.HasPrefix(first, []byte("\xfe\xff")) {
		return "utf-16"
	}
	var zeros [2]int
	for i, b := range first {
		if b == 0 {
			zeros[i%2]++
		}
	}
	// Most characters of tables are ASCII, which has a zero in UTF-16.
	half := len(first) / 2
	switch {
	case half == 0 || zeros[0]+zeros[1] == 0:
		return ""
	case zeros[1] > half/2 && zeros[0] <= zeros[1]/8:
		return "utf-16le"
	case zeros[0] > half/2 && zeros[1] <= zeros[0]/8:
		return "utf-16be"
	}
	return ""
}

// IsUTF8 reports whether the first bytes of a text have characters beyond ASCII, and are UTF-8: text in an encoding of
// single bytes hardly ever is by chance.
func IsUTF8(first []byte) bool {
	for range utf8.UTFMax - 1 { // the last character may be cut off
		if r, size := utf8.DecodeLastRune(first); r != utf8.RuneError || size != 1 {
			break
		}
		first = first[:len(first)-1]
	}
	return utf8.Valid(first) && bytes.ContainsFunc(first, func(r rune) bool { return r >= utf8.RuneSelf })
}
