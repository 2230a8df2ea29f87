package ingest

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/stagewise/stagewise/ingest/format/plain"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/examples"
)

const plainRows = "a,1,2\nb,3,4\n"

// bzip2Rows is plainRows, compressed by bzip2 1.0.8: Go only decompresses bzip2.
const bzip2Rows = "425a683931415926535954c5397e0000055900001000043c003000200021a0c9ea10c088fa0090bc5dc914e142415314e5f8"

func gzipped(t testing.TB, content string) []byte {
	t.Helper()
	var file bytes.Buffer
	w := gzip.NewWriter(&file)
	assert.Must(io.WriteString(w, content))(t)
	assert.NoError(t, w.Close())
	return file.Bytes()
}

func zstandard(t testing.TB, content string) []byte {
	t.Helper()
	w := assert.Must(zstd.NewWriter(nil))(t)
	defer w.Close()
	return w.EncodeAll([]byte(content), nil)
}

func bzipped(t testing.TB, file string) []byte {
	t.Helper()
	return assert.Must(hex.DecodeString(file))(t)
}

func readContent(file io.Reader) (string, error) {
	c, err := input.New(context.Background(), "file", io.NopCloser(file))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(c)
	return string(text), err
}

func TestContent(t *testing.T) {
	zipped := gzipped(t, plainRows)
	twice := bytes.Repeat(zipped, 2)
	bz := bzipped(t, bzip2Rows)
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"plain":              {[]byte(plainRows), plainRows},
		"empty":              {nil, ""},
		"gzip":               {zipped, plainRows},
		"gzip, empty":        {gzipped(t, ""), ""},
		"gzip, two members":  {twice, plainRows + plainRows},
		"gzip, large":        {gzipped(t, strings.Repeat(plainRows, 100_000)), strings.Repeat(plainRows, 100_000)},
		"bzip2":              {bz, plainRows},
		"bzip2, two streams": {bytes.Repeat(bz, 2), plainRows + plainRows},
		"bzip2, empty":       {bzipped(t, "425a683917724538509000000000"), ""},
		"zstd, two frames":   {bytes.Repeat(zstandard(t, plainRows), 2), plainRows + plainRows},
		"zstd, skipped":      {append([]byte("\x50\x2a\x4d\x18\x04\x00\x00\x00size"), zstandard(t, plainRows)...), plainRows},
		"zstd, large":        {zstandard(t, strings.Repeat(plainRows, 100_000)), strings.Repeat(plainRows, 100_000)},
		"begins like bzip2":  {[]byte("BZh1,2,3\n"), "BZh1,2,3\n"},
	} {
		for _, from := range []io.Reader{bytes.NewReader(test.file), iotest.OneByteReader(bytes.NewReader(test.file))} {
			got, err := readContent(from)
			assert.True(t, err == nil && got == test.want, "%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// A compressed file truncated at any byte is an error with the offset, even if only bytes after the content are missing.
// No example is lost silently.
func TestContentCutOff(t *testing.T) {
	for kind, file := range map[string][]byte{"gzip": gzipped(t, plainRows), "bzip2": bzipped(t, bzip2Rows), "zstd": zstandard(t, plainRows)} {
		magic := map[string]int{"gzip": 2, "bzip2": 4, "zstd": 4}[kind]
		for n := magic; n < len(file); n++ {
			_, err := readContent(bytes.NewReader(file[:n]))
			want := fmt.Sprintf("file: offset %d: the %s stream is cut off: unexpected EOF", n, kind)
			assert.True(t, err != nil && err.Error() == want && errors.Is(err, io.ErrUnexpectedEOF), "%d bytes of %s: %v", n, kind, err)
		}
		f := newFolder(t)
		o := Defaults()
		for n := range file {
			o.Train = []string{f.write(t, "a.csv", file[:n])}
			rows, err := readSources(o)
			assert.True(t, isFileError(err), "%d bytes of %s: %v, %v", n, kind, rows, err)
		}
	}
	// the checksums at the end of both files of an idx pair are verified too
	images, labels := idxFile(8, []uint32{2, 1}, []uint8{1, 2}), idxFile(8, []uint32{2}, []uint8{1, 2})
	for _, cut := range []string{"images", "labels"} {
		a, b := gzipped(t, string(images)), gzipped(t, string(labels))
		if cut == "images" {
			a = a[:len(a)-1]
		} else {
			b = b[:len(b)-1]
		}
		f := newFolder(t)
		o := Defaults()
		o.Train = []string{f.write(t, "images-ubyte.gz", a), f.write(t, "labels-ubyte.gz", b)}
		_, err := readSources(o)
		assert.True(t, err != nil && strings.HasPrefix(f.text(err), cut+"-ubyte.gz: offset ") && errors.Is(err, io.ErrUnexpectedEOF),
			"%s cut off: %v", cut, err)
	}
}

func TestContentDamaged(t *testing.T) {
	file := gzipped(t, plainRows)
	file[len(file)-5] ^= 1 // in the length: RFC 1952, 2.3
	file[len(file)-6] ^= 1 // in the checksum
	_, err := readContent(bytes.NewReader(file))
	want := fmt.Sprintf("file: offset %d: the gzip stream is damaged: gzip: invalid checksum", len(file))
	assert.Equal(t, fmt.Sprint(err), want, "checksum")
	bz := bzipped(t, bzip2Rows)
	bz[12] ^= 1
	_, err = readContent(bytes.NewReader(bz))
	assert.True(t, isFileError(err) && strings.Contains(err.Error(), "the bzip2 stream is damaged: "), "bzip2: %v", err)
	_, err = readContent(bytes.NewReader(append(gzipped(t, plainRows), "rest"...)))
	assert.True(t, isFileError(err), "bytes after the stream: %v", err)
	// flipped bits cause no panic
	for i := range file {
		for bit := range 8 {
			damaged := gzipped(t, plainRows)
			damaged[i] ^= 1 << bit
			text, err := readContent(bytes.NewReader(damaged))
			assert.True(t, err == nil || isFileError(err), "%T: %v after %q", err, err, text)
		}
	}
}

// Any file either has a content, or reading it returns a *input.Error.
func FuzzContent(f *testing.F) {
	zipped := gzipped(f, plainRows)
	for _, file := range [][]byte{
		nil, []byte(plainRows), zipped, append(zipped, zipped...), append(zipped, "more"...), zipped[:len(zipped)-3], bzipped(f, bzip2Rows),
		zstandard(f, plainRows), zstandard(f, strings.Repeat("0", 1<<20)), zstandard(f, plainRows)[:9], []byte("\xfd7zXZ\x00"),
		[]byte("PK\x03\x04"),
		gzipped(f, strings.Repeat("0", 1<<20)), []byte("BZh9"), []byte("BZh9\x17\x72\x45\x38\x50\x90\x00\x00\x00\x00"),
	} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := input.New(t.Context(), "file", io.NopCloser(bytes.NewReader(file)))
		if err != nil {
			checkFuzzError(t, []string{"file"}, err)
			return
		}
		if _, err := io.Copy(io.Discard, io.LimitReader(c, 16<<20)); err != nil {
			checkFuzzError(t, []string{"file"}, err)
		}
	})
}

// inUTF16 returns an ASCII text in UTF-16, little-endian.
func inUTF16(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		b.Write([]byte{c, 0})
	}
	return b.String()
}

// A file that has no rows, or has them in another form, is an error that says what it is and what to do, under any name, also compressed.
func TestFilesWithoutRows(t *testing.T) {
	f := newFolder(t)
	for content, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n": "a pointer of Git LFS instead of the file: fetch the file with `git lfs pull`",
		"<!DOCTYPE html>\n<html><head><title>403</title></head></html>\n":           "an HTML page: a server sent it instead of the file: download the file again",
		"[{\"a\":1,\"kind\":\"x\"},\n{\"a\":2,\"kind\":\"y\"}]\n":                   "a JSON array: write one object a line, as with `jq -c '.[]'`",
		"{\n  \"a\": 1,\n  \"kind\": \"x\"\n}\n":                                    "JSON with objects over several lines: write one object a line, as with `jq -c .`",
		"\x93NUMPY\x01\x00v\x00{'descr': '<f8'":                                     "an array of numpy (.npy): write it, with the labels, as columns of Parquet",
		"\x80\x04\x95\x00\x00":                                                      "a pickle of Python: write the rows as Parquet",
		"SQLite format 3\x00\x10\x00":                                               "a SQLite database: export a table as CSV",
		"\xfd7zXZ\x00\x00\x04":                                                      "compressed with xz: decompress it with `xz -d`",
	} {
		for _, name := range []string{"f.csv", "f.parquet", "f.json", "f.jsonl", "f.arrow", "f.libsvm", "f"} {
			for _, content := range []string{content, string(gzipped(t, content))} {
				o := Defaults()
				o.Train, o.Label = []string{f.write(t, name, []byte(content))}, "kind"
				_, err := readSources(o)
				assert.True(t, errors.As(err, new(*input.Error)) && strings.HasPrefix(f.text(err), name+": "+want),
					"%s: %s, expected %s", name, f.text(err), want)
			}
		}
	}
	lines := "{\"a\":1,\"kind\":\"x\"}\n{\"a\":2,\"kind\":\"y\"}\n"
	for name, want := range map[string]string{"f.json": "", "f": "", "f.csv": "f.csv: not a csv file as given by its name: its format is jsonl: " +
		"set examples.format: jsonl"} {
		o := Defaults()
		o.Train, o.Label = []string{f.write(t, name, []byte(lines))}, "kind"
		_, err := readSources(o)
		assert.Equal(t, f.text(err), want, "%s", name)
	}
}

// A value of a topic that is not of the format says what it is, and what the producer or the configuration should do. Advice on
// encodings is for texts only.
func TestValuesOfOtherForms(t *testing.T) {
	object := `{"label":"a","x":1,"y":2}`
	const (
		unzipped = "let the producer send plain values, and compress batches (`compression.type`), which consumers undo"
		record   = "let the producer send the record alone, or with a schema registry, and set examples.format: avro"
		rows     = "let the producer write JSON, CSV, Arrow, Avro or Protobuf"
	)
	for _, test := range []struct{ formats, value, want string }{
		{"json csv avro arrow", string(gzipped(t, object)), "compressed with gzip: " + unzipped},
		{"json csv avro arrow", "\x28\xb5\x2f\xfd\x04\x58\x00", "compressed with zstd: " + unzipped},
		{"json csv avro arrow", "Obj\x01\x04\x16avro.schema\x00", "an Avro file: " + record},
		{"json csv arrow", "\xc3\x01\x12\x34\x56\x78\x9a\xbc\xde\xf0\x02a", "Avro's single-object encoding: " + record},
		{"json csv avro arrow", "\xac\xed\x00\x05sr\x00\x0ecom.shop.Event", "an object serialized by Java: " + rows},
		{"json csv arrow", "\x80\x04\x95\x1a\x00\x00\x00", "a pickle of Python: " + rows},
		{"json csv", "\x83\xa1x\x01\xa1y\x02\xa5label\xa1a", "MessagePack: " + rows},
		{"json csv", inUTF16(object), "text in UTF-16: set examples.encoding: utf-16le, or let the producer write UTF-8"},
		{"json csv", inUTF16("a,1,2"), "text in UTF-16: set examples.encoding: utf-16le, or let the producer write UTF-8"},
		{"json csv", "<html><body>502 Bad Gateway</body></html>", "an HTML page: " + rows},
		{"csv avro arrow", object, "JSON: set examples.format: json"},
		{"json", `"{\"label\":\"a\",\"x\":1}"`, "JSON within a JSON text: the producer encodes it twice: let it write the object itself"},
		{"json csv", "\x02a\x00\x00\x80\x3f\xff\xff", "binary data: set examples.format to what the producer writes: arrow, avro or protobuf"},
		{"json", "gr\xfcn", "byte 2, 0xfc, is not UTF-8: set examples.encoding, such as windows-1252, or convert the text"},
		{"csv", "gr\xfcn,1,2", `column 0: label "gr\xfcn" is not UTF-8: set examples.encoding, such as windows-1252, or convert the text`},
	} {
		for format := range strings.FieldsSeq(test.formats) {
			o := ofTopic(format, func(o *Options) {
				if format == "avro" {
					o.Schema = newFolder(t).write(t, "event.avsc", []byte(`{"type":"record","name":"e","fields":[{"name":"label","type":"string"},`+
						`{"name":"x","type":"double"},{"name":"y","type":"double"}]}`))
				}
				if format != plain.CSV().Name {
					o.Columns.Use = []string{"x", "y"}
				}
			})
			for range 2 { // the columns of CSV are known from the first value
				v := valuesOf(t, o)
				_, err := v.Add(t.Context(), TopicMessage{Value: []byte(test.value)})
				assert.True(t, err != nil && strings.HasPrefix(err.Error(), test.want), "%s %q: %v, expected %s", format, test.value, err, test.want)
			}
		}
	}
	o := ofTopic("json", func(o *Options) {
		o.Columns.Use = []string{"x"}
		o.Outcome.Topic, o.Outcome.Key, o.Outcome.Label, o.Outcome.Within = "outcomes", "id", "label", time.Hour
	})
	outcomes := assert.Must(NewOutcomes(o, nil))(t)
	for value, want := range map[string]string{
		string(gzipped(t, object)): "compressed with gzip: " + unzipped,
		inUTF16(object):            "text in UTF-16: let the producer write UTF-8",
		"\x02a\x00\x00\x80\x3f":    "binary data: set examples.outcome.format to what the producer writes: arrow, avro or protobuf",
	} {
		_, err := outcomes.Read(t.Context(), TopicMessage{Value: []byte(value)})
		assert.Equal(t, fmt.Sprint(err), want, "%q", value)
	}
}

// A word in a column of numbers says which keys accept it, in each format, unless the row is to be predicted.
func TestWordsInColumnsOfNumbers(t *testing.T) {
	const (
		missing = "examples.missing_values lists the words for a missing value"
		drop    = "examples.columns.drop excludes a column"
	)
	for word, want := range map[string]string{
		`\N`: ": " + missing + ", " + drop, "#N/A": ": " + missing + ", " + drop, "?": ": " + missing + ", " + drop, "#DIV/0!": ": " + missing + ", " + drop,
		"(null)": ": " + missing + ", " + drop, "none": ": examples.categorical accepts columns of words, " + drop + ", " + missing,
		"N.A.":       ": examples.categorical accepts columns of words, " + drop + ", " + missing,
		"2026-01-02": ": examples.times accepts columns of dates and times, " + drop, "1,5": ": write decimals with a point", "$12": "",
	} {
		quoted := assert.Must(json.Marshal(word))(t)
		want = string(quoted) + " is not a number" + want
		var first, rest strings.Builder
		for i := range 1100 {
			fmt.Fprintf(&first, "{\"x\":%d,\"label\":\"a\"}\n", i)
		}
		fmt.Fprintf(&rest, "{\"x\":%s,\"label\":\"b\"}\n", quoted)
		f := newFolder(t)
		for name, content := range map[string]string{"f.csv": "x,label\n1,a\n\"" + word + "\",b\n", "f.jsonl": first.String() + rest.String()} {
			o := Defaults()
			o.Train, o.Label = []string{f.write(t, name, []byte(content))}, "label"
			_, err := readSources(o)
			assert.True(t, strings.HasSuffix(f.text(err), want), "%s: %s, expected %s", name, f.text(err), want)
			_, _, err = readRows(File(t.Context(), o.Train[0], Defaults(), layout.Features{Width: 1, Columns: examples.Columns{{Name: "x"}}}))
			assert.True(t, !strings.Contains(f.text(err), "examples.") && err != nil, "%s to predict: %v", name, err)
		}
		o := Defaults()
		o.Train, o.Label = []string{f.write(t, "mixed.jsonl", []byte("{\"x\":1,\"label\":\"a\"}\n"+rest.String()))}, "label"
		want = "type whole number and string: features are numbers, booleans, or one list of numbers: "
		_, err := readSources(o)
		assert.True(t, strings.Contains(f.text(err), want) && strings.HasSuffix(f.text(err), missing+", if "+string(quoted)+" is one"),
			"%v, expected %s", err, want)
	}
	_, err := valuesOf(t, ofTopic("csv", func(*Options) {})).Add(t.Context(), TopicMessage{Value: []byte(`a,1,\N`)})
	assert.Equal(t, fmt.Sprint(err), `column 2: "\\N" is not a number: `+missing+", "+drop, "")
}
