package signature

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// Text comes back from every encoding, whatever a read returns at a time.
func TestTextComesBack(t *testing.T) {
	const text = "größe;thé\n1,5;été\n"
	little, _ := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(text)
	big, _ := unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String(text)
	bare, _ := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().String(text)
	bareBig, _ := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewEncoder().String(text)
	latin, _ := charmap.ISO8859_1.NewEncoder().String(text)
	windows, _ := charmap.Windows1252.NewEncoder().String(text + "€")
	for name, test := range map[string]struct{ content, want, sniffed string }{
		"utf-16":       {little, text, "utf-16"},
		"UTF_16":       {big, text, "utf-16"},
		"UTF-16LE":     {bare, text, "utf-16le"},
		"utf-16be":     {bareBig, text, "utf-16be"},
		"latin-1":      {latin, text, ""},
		"ISO-8859-1":   {latin, text, ""},
		"windows-1252": {windows, text + "€", ""},
		"cp1252":       {windows, text + "€", ""},
		"utf-8":        {text, text, ""},
	} {
		if !IsEncoding(name) {
			t.Errorf("%s is not known", name)
			continue
		}
		got, err := io.ReadAll(iotest.OneByteReader(NewTextReader(strings.NewReader(test.content), name)))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %q, %v, expected %q", name, got, err, test.want)
		}
		if sniffed := SniffEncoding([]byte(test.content)); sniffed != test.sniffed {
			t.Errorf("%s is taken for %q, expected %q", name, sniffed, test.sniffed)
		}
	}
	for _, name := range []string{"", "klingon", "utf-7"} {
		if IsEncoding(name) {
			t.Errorf("%q is known", name)
		}
	}
}

// Bytes that are no text in the encoding are an error, not other characters.
func TestBytesThatAreNoText(t *testing.T) {
	for name, content := range map[string]string{
		"windows-1252": "a\x81b",             // not assigned
		"utf-16le":     "a\x00\x00\xd8b\x00", // half a pair
		"utf-8":        "th\xe9",
		"shift_jis":    "a\x81",
	} {
		_, err := io.ReadAll(iotest.OneByteReader(NewTextReader(strings.NewReader(content), name)))
		var wrong *EncodingError
		if !errors.As(err, &wrong) || wrong.Encoding != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIsUTF8(t *testing.T) {
	for text, want := range map[string]bool{"": false, "abc": false, "thé": true, "th\xe9,": false, "thé\xc3": true, "\xc3": false} {
		if IsUTF8([]byte(text)) != want {
			t.Errorf("%q: expected %v", text, want)
		}
	}
}

func FuzzNewReader(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00"), "utf-16")
	f.Add([]byte("th\xe9"), "latin-1")
	f.Fuzz(func(t *testing.T, content []byte, name string) {
		SniffEncoding(content)
		IsUTF8(content)
		if !IsEncoding(name) {
			return
		}
		if text, err := DecodeText(content, name); err == nil && strings.ToValidUTF8(string(text), "") != string(text) {
			t.Errorf("%q became %q", content, text)
		}
	})
}
