package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// flowers is CSV of so many rows of each of these classes, in their order.
func flowers(rows int, classes ...string) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for _, class := range classes {
		for range rows {
			fmt.Fprintf(&b, "%s,%.3f,%.3f\n", class, float64(len(class))+random.Float64(), random.Float64())
		}
	}
	return b.String()
}

// run does not die of first rows that are all of one class: it takes in rows until there is a second, or waits for one
// and says so. The classes of the configuration decide at once.
func TestRunWaitsForASecondClass(t *testing.T) {
	const orchard = "name: orchard\nexamples: {train: [train.csv], label: 0, batch_rows: 50, partitions: 1}\nstages: " +
		"[{features: {kind: columns}, passes: 5}]\nretrain: {rows: 100}\n"
	inFolder(t, map[string]string{"run.yaml": orchard, "train.csv": flowers(300, "iris", "tulips"), "one.csv": flowers(300, "iris")})
	if code, stdout, stderr := stagewise("run", "-c", "run.yaml", "--until", "end"); code != exitDone || !strings.Contains(stderr,
		"       1  full          350          350 ") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	one := []string{"run", "-c", "run.yaml", "--set", "examples.train=one.csv", "--set", "metrics.listen="}
	if code, _, stderr := stagewise(append(one, "--until", "end", "--set", "data_dir=ended")...); code != exitFailed ||
		strings.Contains(stderr, "failed") || !strings.Contains(stderr, `all examples have the label "iris"`) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	waits := startCommand(t, append(one, "--set", "data_dir=waits")...)
	waits.says("the first version waits for rows of a second class: of 300 rows so far")
	if code, _, stderr := stagewise(append(one, "--until", "end", "--set", "data_dir=named", "--set",
		"examples.classes=[iris,tulips]")...); code != exitDone || !strings.Contains(stderr, "       1  full          100          100 ") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
