package signature

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/stagewise/stagewise/internal/assert"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

func zipped(t *testing.T, name string) string {
	t.Helper()
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	w, err := z.Create(name)
	if err == nil {
		_, err = w.Write([]byte("content"))
	}
	if err == nil {
		err = z.Close()
	}
	assert.NoError(t, err)
	return packed.String()
}

func zlibbed(text string) string {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	w.Write([]byte(text))
	w.Close()
	return packed.String()
}

// wide returns a text in UTF-16; low is the index of the low byte: 0 for little-endian.
func wide(text string, low int) string {
	var b []byte
	for _, c := range utf16.Encode([]rune(text)) {
		pair := [2]byte{byte(c >> 8), byte(c >> 8)}
		pair[low] = byte(c)
		b = append(b, pair[:]...)
	}
	return string(b)
}

// Bytes have the name of what wrote them; other tables and texts have none.
func TestForms(t *testing.T) {
	object := `{"a": 1.5, "kind": "iris"}`
	for content, want := range map[string]string{
		"\x93NUMPY\x01\x00v\x00{'descr': '<f8'":                              "an array of numpy (.npy)",
		"\x80\x04\x95\x1a\x00\x00\x00":                                       "a pickle of Python",
		"\x80\x02}q\x00":                                                     "a pickle of Python",
		zipped(t, "x.npy"):                                                   "arrays of numpy (.npz)",
		zipped(t, "archive/data.pkl"):                                        "a file of PyTorch",
		zipped(t, "[Content_Types].xml"):                                     "a zip archive, or a spreadsheet workbook",
		"\xac\xed\x00\x05sr\x00\x0ecom.shop.Event":                           "an object serialized by Java",
		"\x1f\x8b\x08\x00\x00\x00":                                           "compressed with gzip",
		"\x28\xb5\x2f\xfd\x04\x58":                                           "compressed with zstd",
		zlibbed(object):                                                      "compressed with zlib",
		"Obj\x01\x04\x16avro.schema":                                         "an Avro file",
		"\xc3\x01\x12\x34\x56\x78\x9a\xbc\xde\xf0\x02":                       "Avro's single-object encoding",
		"\xff\xfe\x00\x00x\x00\x00\x00":                                      "text in UTF-32",
		"\x00\x00\xfe\xff\x00\x00\x00x":                                      "text in UTF-32",
		"\x83\xa1a\xcb\x3f\xf8":                                              "MessagePack",
		"\x16\x00\x00\x00\x02k\x00\x05\x00\x00\x00iris\x00\x10a\x00\x01\x00": "",
		"\x0c\x00\x00\x00\x10a\x00\x01\x00\x00\x00\x00":                      "BSON",
		"\xd9\xd9\xf7\xa1aa\x01":                                             "CBOR",
		"\x03\x00" + strings.Repeat("u", 16) + "\x02":                        "the framing of the AWS Glue Schema Registry",
		"PAR1\x15\x04":                                                       "a Parquet file",
		"\xff\xff\xff\xff\x78\x00\x00\x00":                                   "an Arrow stream",
		"\x00\x00\x08\x03\x00\x00":                                           "an idx file",
		"\xff\xfe" + wide(object, 0):                                         "text in UTF-16",
		wide(object, 0):                                                      "text in UTF-16",
		wide("a,b,kind\n1,2,iris\n", 1):                                      "text in UTF-16",
		"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n": "a pointer of Git LFS instead of the file",
		"/annex/objects/SHA256E-s12--4d.csv\n":                                      "a pointer of git-annex instead of the file",
		"outs:\n- md5: a1\n  path: f.csv\n":                                         "a pointer of DVC instead of the file",
		"\n <!DOCTYPE HTML PUBLIC>":                                                 "an HTML page",
		"\ufeff<html lang=en>":                                                      "an HTML page",
		"<?xml version=\"1.0\"?><Error>":                                            "an XML document",
		"r\x02\x01\x00\x03\x00\x58\x02\x00\x00":                                     "a Stata file",
		"sep=;\na;b\n1;2\n":                                                         "a CSV whose first line names the delimiter, for spreadsheets",
		"@RELATION iris":                                                            "an ARFF file of Weka",
		"[" + object + "," + object + "]":                                           "a JSON array",
		"[\n  {\n \"a\": 1":                                                         "a JSON array",
		"[[1, 2], [3":                                                               "a JSON array without objects",
		"[1, 2, 3]\n":                                                               "a JSON array without objects",
		"{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}\n":                                      "JSON with objects over several lines",
		"{\"rows\": [\n" + object:                                                   "JSON with objects over several lines",
		object + "\n" + object:                                                      "JSON",
		"{\"a\": 1,\n" + object:                                                     "JSON", // a damaged line: its reader says where
		`"{\"a\": 1}"`:                                                              "JSON within a JSON text",
		"{'a': 1, 'kind': None}":                                                    "a dictionary of Python as text",
		base64.StdEncoding.EncodeToString([]byte(object)):                           "JSON in Base64",

		"":                          "",
		"a,b,kind\n1,2,iris\n":      "",
		"ORC,PK\n1,2\n":             "",
		"sepal,petal\n1,2\n":        "",
		"rs,q\n1,2\n":               "",
		"BZh9,x\n":                  "",
		"Obj,x\n1,2\n":              "",
		"[1 2 3],iris\n":            "",
		"[1] Smith, spam\n":         "",
		"[LAUGHS] hello,spam\n":     "",
		"<b>sale</b>,spam\n":        "",
		"version,kind\n1,iris\n":    "",
		"eyJ,1\n":                   "",
		"x^,1\n":                    "",
		"{curly} text,spam\n":       "",
		"\"a\",1\n":                 "",
		"größe;thé\n":               "",
		"gr\xf6\xdfe;th\xe9\n":      "",
		"1 3:0.5 7:1\n":             "",
		"\x0212\x1a\x00\x00":        "",
		"\x00\x00\x00\x00\x07\x02a": "",
	} {
		got, ok := Of([]byte(content))
		assert.True(t, got.Name == want && ok == (want != ""), "%.40q is %q, expected %q", content, got.Name, want)
		for n := range content { // none panics
			Of([]byte(content[:n]))
		}
	}
}

// Each form says what to do with a file and with a value, unless a format reads it without a key.
func TestEveryFormHasAdvice(t *testing.T) {
	key := func(name string) string { return "examples." + name }
	for _, f := range forms {
		file, value := f.OfFile(key), f.OfValue(key)
		assert.True(t, f.Name != "" && file != "" && value != "", "%+v", f.Form)
		for _, said := range []string{file, value} {
			assert.True(t, !strings.HasSuffix(said, ".") && !strings.Contains(said, "  "), "%s: %q", f.Name, said)
		}
	}
}

func TestBinary(t *testing.T) {
	for content, want := range map[string]bool{"": false, "a,1\n": false, "größe": false, "gr\xf6\xdfe": false, "a\x00b": true,
		"\x06abc\x0212": true, "\xf6\x01\xff": true, "{\"a\": \"x\x01\"}": false} {
		assert.True(t, IsBinary([]byte(content)) == want, "%q: %v", content, !want)
	}
}

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
		assert.True(t, err == nil && string(got) == test.want, "%s: %q, %v, expected %q", name, got, err, test.want)
		sniffed := SniffEncoding([]byte(test.content))
		assert.True(t, sniffed == test.sniffed, "%s is taken for %q, expected %q", name, sniffed, test.sniffed)
	}
	for _, name := range []string{"", "klingon", "utf-7"} {
		assert.True(t, !IsEncoding(name), "%q is known", name)
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
		assert.True(t, errors.As(err, &wrong) && wrong.Encoding == name, "%s: %v", name, err)
	}
}

func TestIsUTF8(t *testing.T) {
	for text, want := range map[string]bool{"": false, "abc": false, "thé": true, "th\xe9,": false, "thé\xc3": true, "\xc3": false} {
		assert.True(t, IsUTF8([]byte(text)) == want, "%q: expected %v", text, want)
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
		text, err := DecodeText(content, name)
		assert.True(t, err != nil || strings.ToValidUTF8(string(text), "") == string(text), "%q became %q", content, text)
	})
}
