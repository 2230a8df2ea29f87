package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// teas are rows whose label and whose categorical column have letters beyond ASCII: the word tells the label.
func teas() string {
	text, words, labels := strings.Builder{}, []string{"thé", "café", "maté"}, []string{"été", "hôtel", "île"}
	text.WriteString("grams,drink,where\n")
	for i := range 90 {
		fmt.Fprintf(&text, "%d.5,%s,%s\n", i%7, words[i%3], labels[i%3])
	}
	return text.String()
}

const teaConfiguration = `name: teas
examples: {train: [teas.csv], label: where, categorical: [drink]}
prepare: {scale: standard}
stages: [{features: {kind: columns}, passes: 10, ridge: 1e-6}]
`

func write600(t *testing.T, name string, content []byte) {
	t.Helper()
	noError(t, os.WriteFile(name, content, 0o600))
}

// A file in another encoding is read as the same file in UTF-8 is, by train and by predict, if a key says which
// encoding it is. UTF-16 says so itself: the error has the key.
func TestEncodings(t *testing.T) {
	long(t)
	var predicted []string
	for name, e := range map[string]encoding.Encoding{
		"":             encoding.Nop,
		"latin-1":      charmap.ISO8859_1,
		"windows-1252": charmap.Windows1252,
		"utf-16":       unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
		"utf-16be":     unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	} {
		content := valueOf(e.NewEncoder().Bytes([]byte(teas())))(t)
		inFolder(t, map[string]string{"teas.yaml": teaConfiguration})
		write600(t, "teas.csv", content)
		write600(t, "utf8.csv", []byte(teas()))
		if strings.HasPrefix(name, "utf-16") {
			code, _, stderr := stagewise("train", "-c", "teas.yaml", "--quiet")
			if want := "teas.csv: text in UTF-16: set examples.encoding: " + name; code == exitDone || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d: %s, expected %s", code, stderr, want)
			}
		}
		code, _, stderr := stagewise("train", "-c", "teas.yaml", "--quiet", "--set", "examples.encoding="+name, "--model", "teas.model")
		if code != exitDone {
			t.Fatalf("%s: exit code %d: %s", name, code, stderr)
		}
		for _, args := range [][]string{{"-i", "teas.csv"}, {"-i", "utf8.csv", "--encoding", "utf-8"}} {
			code, stdout, stderr := stagewise(append([]string{"predict", "--model", "teas.model"}, args...)...)
			if code != exitDone || !strings.HasPrefix(stdout, "label,hôtel,été,île\nété,") {
				t.Errorf("%s, %v: exit code %d: %.100s%s", name, args, code, stdout, stderr)
			}
			predicted = append(predicted, stdout)
		}
		if name == "latin-1" {
			code, _, stderr := stagewise("predict", "--model", "teas.model", "-i", "utf8.csv")
			if code == exitDone || !strings.Contains(stderr, "the text is UTF-8, but --encoding is latin-1") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		}
	}
	for _, other := range predicted[1:] {
		if other != predicted[0] {
			t.Error("the predictions of the same rows differ with the encoding of their file")
		}
	}
	code, _, stderr := stagewise("check", "-c", "teas.yaml", "--set", "examples.encoding=klingon")
	if code != exitWrong || !strings.Contains(stderr, "expected the name of an encoding, such as latin-1") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// What is in no format that is read says what it is, and what to do, whatever its name says. Zstandard is read.
func TestContainersAndLines(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"teas.yaml": teaConfiguration, "plain.csv": teas()})
	var zipped, packed bytes.Buffer
	archive := zip.NewWriter(&zipped)
	if w, err := archive.Create("teas.csv"); err != nil {
		t.Fatal(err)
	} else if _, err := w.Write([]byte(teas())); err != nil {
		t.Fatal(err)
	}
	noError(t, archive.Close())
	compressor := valueOf(zstd.NewWriter(&packed))(t)
	valueOf(compressor.Write([]byte(teas())))(t)
	noError(t, compressor.Close())
	write600(t, "teas.csv.zip", zipped.Bytes())
	write600(t, "teas.csv.zst", packed.Bytes())
	write600(t, "cut.csv.zst", packed.Bytes()[:packed.Len()-9])
	write600(t, "teas.csv.xz", append([]byte("\xfd7zXZ\x00\x00\x04"), make([]byte, 60)...))
	write600(t, "teas.parquet", []byte(teas()))
	write600(t, "returns.csv", []byte(strings.ReplaceAll(teas(), "\n", "\r")))
	write600(t, "parquet.csv", []byte("PAR1\x15\x04\x15\x00\x00"))
	write600(t, "ORC.csv", []byte("ORC,drink,where\n"+strings.SplitN(teas(), "\n", 2)[1]))
	for file, want := range map[string]string{
		"teas.csv.zip": "a zip archive, or a spreadsheet workbook: unpack it",
		"teas.csv.xz":  "compressed with xz: decompress it",
		"cut.csv.zst":  "the zstd stream is cut off",
		"teas.parquet": "not a parquet file as given by its name, but text: set examples.format: csv",
		"returns.csv":  "line 1: its lines end with only a carriage return: convert it with `tr '\\r' '\\n'`",
		"parquet.csv":  "not a csv file as given by its name: its format is parquet: set examples.format: parquet",
		"teas.csv.zst": "",
		"ORC.csv":      "",
	} {
		for _, command := range []string{"train", "check"} {
			code, _, stderr := stagewise(command, "-c", "teas.yaml", "--set", "examples.train="+file, "--set", "data_dir=of-"+file)
			if want == "" && code != exitDone || want != "" && command == "train" && (code == exitDone || !strings.Contains(stderr, file+
				": ") || !strings.Contains(stderr, want)) {
				t.Errorf("%s %s: exit code %d: %s, expected %s", command, file, code, stderr, want)
			}
		}
	}
}
