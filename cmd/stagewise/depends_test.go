package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/explain"
)

// pageOfRun returns the page of the first version.
func pageOfRun(t *testing.T) string {
	t.Helper()
	if code, _, stderr := stagewise("runs", "show", "-c", "stagewise.yaml", "1", "--html", "run.html"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	page, err := os.ReadFile("run.html")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// The page of a run has the importance of columns and the errors by slices that explain has of the same rows.
func TestPageOfRunHasWhatExplainHas(t *testing.T) {
	long(t)
	for _, target := range []string{"label", "targets"} {
		rows := strings.SplitAfter(garden(500), "\n")
		inFolder(t, map[string]string{"train.csv": strings.Join(rows[:401], ""), "test.csv": rows[0] + strings.Join(rows[401:], "")})
		label := map[string]string{"label": "kind", "targets": "[width]"}[target]
		config := fmt.Sprintf("name: garden\nexamples: {train: [train.csv], test: [test.csv], %s: %s, columns: {use: [length, colour, no]}, "+
			"categorical: [colour], missing: mean, missing_values: ['NA', '?'], partitions: 1}\nstages: [{features: {kind: trees}, repeat: 2}]\n", target, label)
		if target == "targets" {
			config = strings.Replace(config, "kind: trees}", "kind: trees}, link: identity", 1)
		}
		if err := os.WriteFile("stagewise.yaml", []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := stagewise("train", "-c", "stagewise.yaml", "--quiet", "--model", "m"); code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		code, stdout, stderr := stagewise("explain", "--model", "m", "-i", "test.csv", "--json", "-")
		var r explain.Report
		if err := json.Unmarshal([]byte(stdout), &r); code != exitDone || err != nil {
			t.Fatalf("exit code %d, %v: %s", code, err, stderr)
		}
		page := pageOfRun(t)
		if want := fmt.Sprintf("of %d test rows", r.Rows); !strings.Contains(page, want) {
			t.Errorf("%s: the page lacks %q", target, want)
		}
		for _, c := range r.Importance {
			if want := fmt.Sprintf(`<th scope="row">%s</th><td>%.2f ± %.2f</td>`, c.Name, c.Rise.Error, c.Deviation.Error); !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q", target, want)
			}
		}
		for _, s := range r.Slices {
			for _, slice := range s.Slices {
				if want := fmt.Sprintf(`</th><td>%d</td><td>%.2f</td>`, slice.Rows, slice.Error); !strings.Contains(page, want) {
					t.Errorf("%s: the page lacks %q of %s", target, want, s.Name)
				}
			}
		}
	}
}
