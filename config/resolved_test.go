package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// What a configuration resolves to is a configuration: loaded again, it says the same. It has every key but those of security.
func TestResolvedIsTheSameConfiguration(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v: %v", files, err)
	}
	for _, file := range files {
		content := arrowtest.Must(os.ReadFile(file))(t)
		var environ []string
		if strings.Contains(string(content), "sasl") {
			environ = []string{"STAGEWISE_SECURITY_SASL_PASSWORD=hunter2"}
		}
		var set []string
		if filepath.Base(file) == "empty.yaml" { // all that parses itself
			set = []string{"examples={times: {t: [hour], u: {parts: [age], unit: ms}}, offsets: {v: 1}, class_weight: {a: 2}}",
				"prepare.hash={columns: 2^10, cross: [[c, d]]}", "examples.categorical=c,d", "threshold={cost: {fp: 1, fn: 20}}", "memory=1GiB",
				"examples.missing_values=[]"}
		}
		c := arrowtest.Must(load(file, content, environ, set))(t)
		text := arrowtest.Must(json.Marshal(c))(t)
		if strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "security") {
			t.Errorf("%s: security is in %s", file, text)
		}
		again, err := load(file, text, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v in %s", file, err, text)
		}
		more := arrowtest.Must(json.Marshal(again))(t)
		if string(more) != string(text) {
			t.Errorf("%s: %s resolves to %s", file, text, more)
		}
		if lacks := lacking(t, text); lacks != "" {
			t.Errorf("%s resolves to no key %s", file, lacks)
		}
	}
}

// lacking returns a documented key that a resolved configuration lacks, or nothing. There may be no stages, and whether a file has a
// header has no default.
func lacking(t *testing.T, text []byte) string {
	t.Helper()
	var root any
	arrowtest.NoError(t, json.Unmarshal(text, &root))
	for _, k := range Keys() {
		if strings.HasPrefix(k.Name, withheld) || strings.HasPrefix(k.Name, "stages.") || k.Name == "examples.header" {
			continue
		}
		at := root
		for name := range strings.SplitSeq(k.Name, ".") {
			keys, _ := at.(map[string]any)
			below, ok := keys[name]
			if !ok {
				return k.Name
			}
			at = below
		}
	}
	return ""
}

// An archive without a topic stays one: what its files say is not written.
func TestResolvedArchiveHasNoTopic(t *testing.T) {
	folder := t.TempDir()
	arrowtest.NoError(t, os.WriteFile(filepath.Join(folder, "clicks+0+0000000000.json"), []byte("{\"a\": 1, \"label\": 0}\n"), 0o600))
	content := []byte("name: a\nexamples: {columns: {use: [a]}, archive: {files: \"" + folder + "\", layout: confluent}}\n")
	for range 2 {
		c, err := load("archive.yaml", content, nil, nil)
		arrowtest.NoError(t, err)
		if !c.Examples.Archive.Alone {
			t.Errorf("%s: the archive is not alone", content)
		}
		if content, err = json.Marshal(c); err != nil {
			t.Fatal(err)
		}
	}
}
