package ingest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"image/png"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// For any text file, rows to predict are read or the error includes the reason. With one column there are as many rows as
// lines.
func FuzzRowsToPredict(f *testing.F) {
	for _, content := range []string{"1\n\n2\n", "x\n1\n", "\"1\n\"\n\n", "a,1\nb,2", "{\"x\":1}\n{\"x\":null}", "1:1 2:2\n\n#\n",
		"1 1:1\n", "\xff\n", "buy, now\n", "\r\n\r\n1\r\n"} {
		f.Add([]byte(content))
	}
	folder := f.TempDir()
	no := false
	text := Options{Partitions: 1, Options: layout.Options{Text: "1", Words: layout.WordOptions{Columns: 64, Phrases: 1},
		Missing: layout.Missing{Mode: layout.MissingMean}, MissingValues: layout.DefaultMissingValues(), BatchRows: 3}}
	numbers := Defaults()
	numbers.Missing.Mode, numbers.BatchRows = layout.MissingMean, 3
	bare := numbers
	bare.Header = &no
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, test := range []struct {
			file string
			o    Options
			want layout.Features
		}{
			{"rows.csv", numbers, layout.Features{Width: 1, Columns: examples.Columns{{Name: "x"}}}},
			{"rows.csv", bare, layout.Features{Width: 1, Columns: examples.Columns{{Name: "x"}}}},
			{"rows.csv", numbers, layout.Features{Width: 3, Columns: examples.Columns{{Name: "x"}, {Name: "c", Categories: []string{"a"}}}}},
			{"rows.csv", text, layout.Features{Width: 64, Sparse: true, Labels: []string{"a"}}},
			{"rows.jsonl", numbers, layout.Features{Width: 3, Columns: examples.Columns{{Name: "x"}, {Name: "c", Categories: []string{"a"}}}}},
			{"rows.jsonl", text, layout.Features{Width: 64, Sparse: true}},
			{"rows.libsvm", numbers, layout.Features{Width: 4, Sparse: true}},
		} {
			name := folder + "/" + test.file
			noError(t, os.WriteFile(name, content, 0o600))
			rows := 0
			var failed error
			for batch, err := range File(context.Background(), name, test.o, test.want) {
				if failed = err; err == nil {
					rows += batch.Rows
				}
			}
			if failed != nil && !errors.As(failed, new(*input.Error)) {
				t.Fatalf("%s: %v", test.file, failed)
			}
			plain := !strings.ContainsAny(string(content), "\",;\t|\r") && !bytes.HasPrefix(content, []byte("\ufeff"))
			if lines := bytes.Count(content, []byte{'\n'}); failed == nil && plain && test.o.Header == &no && len(content) > 0 {
				if content[len(content)-1] != '\n' {
					lines++
				}
				if rows != lines {
					t.Fatalf("%q: %d rows, expected %d", content, rows, lines)
				}
			}
		}
	})
}

// tarOf returns a tar of files, in name order.
func tarOf(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		noError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(files[name]))}))
		must(w.Write(files[name]))(t)
	}
	noError(t, w.Close())
	return content.Bytes()
}

// pngOf returns an image with one row of pixels.
func pngOf(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	noError(t, png.Encode(&b, grayImage(1, 2)))
	return b.Bytes()
}

// For any tar, images are read or the error includes the reason.
func FuzzImages(f *testing.F) {
	whole := tarOf(f, map[string][]byte{"cat/a.png": pngOf(f), "dog/b.png": pngOf(f), "dog/c.jpg": {0xff, 0xd8}})
	f.Add(whole)
	for i := range 40 {
		flipped := bytes.Clone(whole)
		flipped[len(whole)*i/40] ^= 1 << (i % 8)
		f.Add(flipped)
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		o := Defaults()
		o.Train = []string{folder + "/images.tar"}
		noError(t, os.WriteFile(o.Train[0], content, 0o600))
		sources, err := Sources(context.Background(), o)
		if err == nil {
			_, _, err = readRows(sources[0].Batches(context.Background()))
		}
		if err != nil && !errors.As(err, new(*input.Error)) {
			t.Error(err)
		}
	})
}
