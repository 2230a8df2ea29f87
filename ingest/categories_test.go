package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
)

// Files with categorical columns are read completely once, for both the words and the digests.
func TestWordsAndDigestsTogether(t *testing.T) {
	f, o := folder(t.TempDir()), Defaults()
	o.Label, o.Categorical = "x", []string{"label"}
	names := []string{f.write(t, "a.csv", []byte("label,x\na,1\nb,2\n")), f.write(t, "a.csv.gz", gzipped(t, "label,x\nc,1\n"))}
	frame := Defaults()
	frame.Label, frame.Categorical, frame.Missing.Mode = "yes", []string{"label"}, layout.MissingMean
	for _, test := range []struct {
		o     Options
		files []string
		words string
	}{{o, names, "[a b c]"}, {frame, []string{f.write(t, "a.parquet", pandasFrame(t))}, "[a b]"}} {
		test.o.Train, test.o.stored = test.files, map[string]stored{}
		read, err := test.o.findWords(t.Context(), nil)
		if err != nil || len(read.stored) != len(test.files) {
			t.Errorf("%d digests, error %v", len(read.stored), err)
		}
		sources, err := Sources(t.Context(), test.o)
		if err != nil {
			t.Fatal(err)
		}
		for _, column := range sources[0].Columns {
			if column.Name == "label" && fmt.Sprint(column.Categories) != test.words {
				t.Errorf("the words %v, expected %s", column.Categories, test.words)
			}
		}
		for _, name := range test.files {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(content); string(read.stored[name].digest) != hex.EncodeToString(sum[:]) {
				t.Errorf("%s has another digest", name)
			}
		}
	}
}
