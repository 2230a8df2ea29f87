package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
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
