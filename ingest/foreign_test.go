package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/ingest/format/plain"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// inUTF16 returns an ASCII text in UTF-16, little-endian.
func inUTF16(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		b.Write([]byte{c, 0})
	}
	return b.String()
}

// A file that has no rows, or has them in another form, is an error that says what it is and what to do, under any name, also
// compressed.
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
				if _, err := readSources(o); !errors.As(err, new(*input.Error)) || !strings.HasPrefix(f.text(err), name+": "+want) {
					t.Errorf("%s: %s, expected %s", name, f.text(err), want)
				}
			}
		}
	}
	lines := "{\"a\":1,\"kind\":\"x\"}\n{\"a\":2,\"kind\":\"y\"}\n"
	for name, want := range map[string]string{"f.json": "", "f": "", "f.csv": "f.csv: not a csv file as given by its name: its format is jsonl: " +
		"set examples.format: jsonl"} {
		o := Defaults()
		o.Train, o.Label = []string{f.write(t, name, []byte(lines))}, "kind"
		if _, err := readSources(o); f.text(err) != want {
			t.Errorf("%s: %v, expected %q", name, err, want)
		}
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
				if _, err := v.Add(t.Context(), TopicMessage{Value: []byte(test.value)}); err == nil || !strings.HasPrefix(err.Error(), test.want) {
					t.Errorf("%s %q: %v, expected %s", format, test.value, err, test.want)
				}
			}
		}
	}
	o := ofTopic("json", func(o *Options) {
		o.Columns.Use = []string{"x"}
		o.Outcome.Topic, o.Outcome.Key, o.Outcome.Label, o.Outcome.Within = "outcomes", "id", "label", time.Hour
	})
	outcomes := must(NewOutcomes(o))(t)
	for value, want := range map[string]string{
		string(gzipped(t, object)): "compressed with gzip: " + unzipped,
		inUTF16(object):            "text in UTF-16: let the producer write UTF-8",
		"\x02a\x00\x00\x80\x3f":    "binary data: set examples.outcome.format to what the producer writes: arrow, avro or protobuf",
	} {
		if _, err := outcomes.Read(t.Context(), TopicMessage{Value: []byte(value)}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, expected %s", value, err, want)
		}
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
		quoted := must(json.Marshal(word))(t)
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
			if _, err := readSources(o); !strings.HasSuffix(f.text(err), want) {
				t.Errorf("%s: %s, expected %s", name, f.text(err), want)
			}
			_, _, err := readRows(File(t.Context(), o.Train[0], Defaults(), layout.Features{Width: 1, Columns: examples.Columns{{Name: "x"}}}))
			if strings.Contains(f.text(err), "examples.") || err == nil {
				t.Errorf("%s to predict: %v", name, err)
			}
		}
		o := Defaults()
		o.Train, o.Label = []string{f.write(t, "mixed.jsonl", []byte("{\"x\":1,\"label\":\"a\"}\n"+rest.String()))}, "label"
		want = "type whole number and string: features are numbers, booleans, or one list of numbers: "
		if _, err := readSources(o); !strings.Contains(f.text(err), want) || !strings.HasSuffix(f.text(err), missing+", if "+string(quoted)+" is one") {
			t.Errorf("%v, expected %s", err, want)
		}
	}
	v := valuesOf(t, ofTopic("csv", func(*Options) {}))
	if _, err := v.Add(t.Context(), TopicMessage{Value: []byte(`a,1,\N`)}); err == nil || err.Error() != `column 2: "\\N" is not a number: `+missing+", "+drop {
		t.Error(err)
	}
}
