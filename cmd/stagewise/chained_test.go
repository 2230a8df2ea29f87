package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A lower bound of λ has no effect in a chain: run refuses one, and so does check if the configuration is of a chain. Without one, with
// the default, and of a run that is no chain, it is fine.
func TestChainHasNoLowerBound(t *testing.T) {
	trees := "name: blobs\nexamples: {train: [train.csv]}\nstages:\n  - {features: {kind: rff, size: 8}, repeat: 2}\n" +
		"  - {features: {kind: trees, size: 16, leaves: 4}, passes: 1%s}\n"
	inFolder(t, map[string]string{"train.csv": blobs(60, 1)})
	const said = "stages.1.ridge_rows: 3: expected 0 or 0.4 for `run`"
	for name, test := range map[string]struct {
		keys, retrain string
		command       string
		code          int
		says          string
	}{
		"run":                   {", ridge_rows: 3", "", "run --until end", exitWrong, said},
		"check of a chain":      {", ridge_rows: 3", "retrain: {rows: 30}\n", "check", exitWrong, said},
		"check":                 {", ridge_rows: 3", "", "check", exitDone, "run does not support these stages: " + said},
		"train":                 {", ridge_rows: 3", "", "train", exitDone, ""},
		"other features":        {", ridge_rows: 0.4}\n  - {ridge_rows: 1e9", "retrain: {rows: 30}\n", "check", exitWrong, "stages.2.ridge_rows: 1e+09"},
		"no bound":              {", ridge_rows: 0", "retrain: {rows: 30}\n", "check", exitDone, ""},
		"no bound, run":         {", ridge_rows: 0", "", "run --until end", exitDone, ""},
		"the default":           {"", "retrain: {rows: 30}\n", "check", exitDone, ""},
		"the default, as a key": {", ridge_rows: 0.4", "", "run --until end", exitDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile("trees.yaml", []byte(fmt.Sprintf(trees, test.keys)+test.retrain), 0o600); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := stagewise(append(strings.Fields(test.command), "-c", "trees.yaml", "--set", "data_dir="+dir)...)
			if code != test.code || !strings.Contains(stdout+stderr, test.says) {
				t.Errorf("exit code %d, expected %d and %q:\n%s%s", code, test.code, test.says, stdout, stderr)
			}
		})
	}
}
