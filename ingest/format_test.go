package ingest

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// The IDs of sources never change: a source that is on a topic must be found
// there by later versions.
func TestSourceIDGolden(t *testing.T) {
	f := newFolder(t)
	table := f.write(t, "a.csv", []byte("y,x,w\nb,1,2\n"))
	images := f.write(t, "images.idx", idxFile(idxUint8, []uint32{1, 1}, uint8(7)))
	labels := f.write(t, "labels.idx", idxFile(idxUint8, []uint32{1}, uint8(1)))
	yes := true
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"csv", func(o *Options) { o.Train, o.Header, o.Weight = []string{table}, &yes, "2" },
			"b8e62c166add2b3929f760e3c1e017aeb5078a06b842060f4a82ee2214136f14"},
		{"csv, all options", func(o *Options) {
			o.Test, o.Label, o.Weight, o.Missing, o.Classes = []string{table}, "y", "w", MissingMean, []string{"b", "a"}
		}, "4d7805118546c951627f0d4c5386b5b9fc6fb1dee69b4d5642515e7fb02369e9"},
		{"idx, all options", func(o *Options) {
			o.Test, o.Label, o.Weight, o.Missing, o.Classes = []string{images, labels}, "y", "w", MissingMean, []string{"1", "0"}
		}, "5433b3fdd123917334e0ef66614916c18f7c3d27c2f4f6fd24c6749bcf8f3e29"},
	} {
		o := Defaults()
		test.change(&o)
		found, err := Sources(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if found[0].ID != test.want {
			t.Errorf("%s: %s, expected %s", test.name, found[0].ID, test.want)
		}
	}
}

// Each format of the table is complete, and no name of a file has two formats.
func TestFormats(t *testing.T) {
	names := map[string]bool{}
	for _, f := range formats() {
		if f.name == "" || names[f.name] || len(f.patterns) == 0 {
			t.Errorf("%q: expected a name of its own, and patterns", f.name)
		}
		names[f.name] = true
		if f.open == nil {
			continue
		}
		if f.openFeatures == nil || f.meaning == "" || f.files < 1 || f.files > 1 && f.wantFiles == "" || (f.keys == nil) != (f.columns == nil) {
			t.Errorf("%s: incomplete: %+v", f.name, f)
		}
	}
	for _, name := range []string{"a-ubyte", "a.idx", "a.idx3", "a.csv", "a.libsvm", "a.arrow", "a.parquet"} {
		claims := 0
		for _, f := range formats() {
			if f.claims(name) {
				claims++
			}
		}
		if claims != 1 {
			t.Errorf("%s: %d formats", name, claims)
		}
	}
}

// The keys that a format reads are those that change the IDs of its sources.
func TestFormatKeys(t *testing.T) {
	yes := true
	changes := map[string]func(*Options){
		"label":   func(o *Options) { o.Label = "5" },
		"weight":  func(o *Options) { o.Weight = "5" },
		"header":  func(o *Options) { o.Header = &yes },
		"missing": func(o *Options) { o.Missing = MissingMean },
	}
	for _, f := range formats() {
		for key, change := range changes {
			if f.columns == nil {
				continue
			}
			o := Defaults()
			before := f.columns(o)
			change(&o)
			if changed := f.columns(o) != before; changed != slices.Contains(f.keys, key) {
				t.Errorf("%s: %s changes the ID: %t", f.name, key, changed)
			}
		}
	}
}

// A format is recognised by the first bytes of a file however short it is.
func TestRecogniseShortFiles(t *testing.T) {
	magic := []byte{0, 0, idxUint8, 1, 0, 0, 0, 0}
	for n := range len(magic) + 1 {
		for _, f := range formats() {
			if f.recognise != nil && f.recognise(magic[:n]) != (f.name == "idx" && n >= 4) {
				t.Errorf("%s: %d bytes", f.name, n)
			}
		}
	}
}

func TestWantFormat(t *testing.T) {
	if got, want := wantFormat(), "idx or csv (libsvm, arrow and parquet are not read yet)"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	for _, test := range []struct{ words, want string }{{"", ""}, {"a", "a"}, {"a b", "a or b"}, {"a b c", "a, b or c"}} {
		if got := enumerate(strings.Fields(test.words), "or"); got != test.want {
			t.Errorf("%q, expected %q", got, test.want)
		}
	}
}
