package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
)

// weightsPipeline is a pipeline whose commands reach the embedded broker of the test.
type weightsPipeline struct {
	*testing.T
	on []string
}

func openWeights(t *testing.T) *weightsPipeline {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(60, 2)})
	broker := startBroker(t)
	return &weightsPipeline{t, []string{"-c", "good.yaml", "--set", "brokers=" + broker.Addr()[0]}}
}

// weights types a command of `weights`, given as one text, and expects this exit code.
func (w *weightsPipeline) weights(code int, command string) (stdout, stderr string) {
	w.Helper()
	return typed(w.T, code, slices.Concat([]string{"weights"}, strings.Fields(command), w.on)...)
}

// expect types a command of `weights` that is done, and expects its standard output.
func (w *weightsPipeline) expect(stdout, command string) {
	w.Helper()
	if got, stderr := w.weights(exitDone, command); got != stdout || stderr != "" {
		w.Errorf("weights %s: %q, %q, expected %q", command, got, stderr, stdout)
	}
}

// refused expects that nothing is done, for a reason.
func (w *weightsPipeline) refused(command, reason string) {
	w.Helper()
	stdout, stderr := w.weights(exitFailed, command)
	if want := "stagewise: " + reason + "\n"; stdout != "" || stderr != want {
		w.Errorf("weights %s: %q, %q, expected %q", command, stdout, stderr, want)
	}
}

// train makes a version, and returns its report.
func (w *weightsPipeline) train(set ...string) (report schemas.Report) {
	w.Helper()
	args := slices.Concat([]string{"train", "--quiet", "--report", "-", "--model", "model"}, w.on)
	for _, s := range set {
		args = append(args, "--set", s)
	}
	stdout, _ := typed(w.T, exitDone, args...)
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		w.Fatal(err)
	}
	return report
}

// manifest returns the manifest of a model file.
func (w *weightsPipeline) manifest(file string) *schemas.Manifest {
	w.Helper()
	f, err := os.Open(file)
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	m, err := model.Read(f)
	if err != nil {
		w.Fatal(err)
	}
	return m.Manifest
}

// latest expects the number of the version that is exported without a number.
func (w *weightsPipeline) latest(version int) {
	w.Helper()
	w.expect("", "export -o exported")
	if got := w.manifest("exported").Version; got != version {
		w.Errorf("version %d is the latest, expected %d", got, version)
	}
}

// listed expects the numbers of the versions and what the column offered has of each.
func (w *weightsPipeline) listed(want ...string) {
	w.Helper()
	stdout, _ := w.weights(exitDone, "list")
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	at := strings.Index(lines[0], "offered")
	var got []string
	for _, line := range lines[1:] {
		got = append(got, strings.Fields(line)[0]+" "+strings.Fields(line[at:])[0])
	}
	if !slices.Equal(got, want) {
		w.Errorf("listed %q, expected %q", got, want)
	}
}

// The version that is pinned is the latest for subscribers, whatever is made after it, and stays. Training goes on from the newest.
func TestVersionsArePinned(t *testing.T) {
	w := openWeights(t)
	first, second := w.train(), w.train()
	w.latest(2)
	w.listed("1 yes", "2 yes")

	w.expect("1\n", "pin 1")
	w.latest(1)
	w.listed("1 pinned", "2 yes")
	third := w.train("warm=latest", "keep=2")
	if warm := w.manifest("model").Plan.Warm; warm == nil || warm.Run != second.Run {
		t.Errorf("the run starts from %+v, expected the newest version, of run %s", warm, second.Run)
	}
	w.listed("1 pinned", "2 yes", "3 yes")
	w.train("keep=1")
	w.listed("1 pinned", "4 yes")
	w.latest(1)
	w.expect("1\n", "pin "+first.Run)
	w.expect("1\n", "pin latest")

	w.expect("4\n", "pin 4")
	w.latest(4)
	w.train()
	w.latest(4)
	w.expect("5\n", "pin --off")
	w.latest(5)
	if stdout, stderr := w.weights(exitDone, "pin --off"); stdout != "5\n" || stderr != "no version was pinned\n" {
		t.Errorf("pinned off again: %q, %q", stdout, stderr)
	}
	w.refused("pin 3", `version "3": the pipeline has 3 versions, but not this one`)
	w.refused("pin "+third.Run, `version "`+third.Run+`": the pipeline has 3 versions, but not this one`)
	w.listed("1 yes", "4 yes", "5 yes")
}

// Versions are removed if nobody needs them; if one of them can't be, all stay.
func TestVersionsAreRemoved(t *testing.T) {
	w := openWeights(t)
	var runs []string
	for range 5 {
		runs = append(runs, w.train().Run)
	}
	w.refused("remove 9 1 word",
		`no version "9" on blobs.versions; see weights list; no version "word" on blobs.versions; see weights list. `+
			"No version is removed")
	w.refused("remove 5 1", "version 5 is pinned, or the newest offered version: --even-latest removes it too. No version is removed")
	w.expect("4\n", "pin 4")
	w.refused("remove 1 4 5", "version 4 is pinned, or the newest offered version: --even-latest removes it too; "+
		"version 5 is pinned, or the newest offered version: --even-latest removes it too. No version is removed")
	id, _ := typed(t, exitDone, slices.Concat([]string{"train", "--detach", "--set", "warm=2"}, w.on)...)
	w.refused("remove 2 1 --even-latest", "version 2: the unfinished run "+strings.TrimSpace(id)+
		" needs it: let it end, or cancel it. No version is removed")
	w.listed("1 yes", "2 yes", "3 yes", "4 pinned", "5 yes")

	w.expect("1\n3\n", "remove 1 "+runs[2]+" 3")
	w.refused("remove 3", `no version "3" on blobs.versions; see weights list. No version is removed`)
	w.refused("export -o exported --version 1", `version "1": the pipeline has 3 versions, but not this one`)
	typed(t, exitDone, slices.Concat([]string{"runs", "cancel", "--all"}, w.on)...)
	w.expect("2\n", "remove 2")
	w.expect("4\n", "remove --even-latest 4") // it was pinned
	w.latest(5)
	w.expect("5\n", "remove --even-latest latest")
	w.refused("export -o exported", `version "latest": the pipeline has no finished version yet`)
	w.refused("pin latest", `version "latest": the pipeline has no finished version yet`)
	if stdout, stderr := w.weights(exitDone, "pin --off"); stdout != "" ||
		stderr != "no version was pinned\nno version is offered: subscribers get none as latest\n" {
		t.Errorf("pinned off without versions: %q, %q", stdout, stderr)
	}

	// The number of a version is never used again.
	if report := w.train(); report.Version != 6 {
		t.Errorf("the next version has the number %d, expected 6", report.Version)
	}
	w.listed("6 yes")
}

// A version that the gate withholds is listed as one that is not offered. Subscribers get it by its number, or while it is pinned.
func TestWithheldVersions(t *testing.T) {
	w := openWeights(t)
	if err := os.WriteFile("more.csv", []byte(blobs(200, 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	var want []string
	withheld, latest := 0, 0
	for _, settings := range [][]string{
		{"--set", "retrain.rows=100"},
		{"--set", "examples.train=[train.csv, more.csv]", "--set", "stages.0.features.size=41", "--set", "stages.0.ridge=1e6", "--set", "stages.1.ridge=1e6"}, // it learns little
	} {
		settings = append([]string{"run", "--until", "end", "--quiet", "--report", "-", "--set", "stages.1.link=softmax", "--set",
			"examples.holdout=0.3", "--set", "examples.batch_rows=20", "--set", "keep=100"}, settings...)
		stdout, _ := typed(t, exitDone, slices.Concat(settings, w.on)...)
		var report struct{ Updates []schemas.RetrainReport }
		if err := json.Unmarshal([]byte(stdout), &report); err != nil {
			t.Fatal(err)
		}
		for _, u := range report.Updates {
			if u.Offered {
				latest = u.Version
				want = append(want, fmt.Sprint(u.Version, " yes"))
			} else {
				withheld = u.Version
				want = append(want, fmt.Sprint(u.Version, " no"))
			}
		}
	}
	if withheld == 0 || latest == 0 {
		t.Fatalf("some versions must be offered, and some withheld: %q", want)
	}
	w.listed(want...)
	w.latest(latest)
	w.expect("", fmt.Sprint("export -o exported --version ", withheld))
	if got := w.manifest("exported").Version; got != withheld {
		t.Errorf("version %d was exported, expected %d", got, withheld)
	}
	w.expect(fmt.Sprintln(withheld), fmt.Sprint("pin ", withheld))
	w.latest(withheld)
	w.expect(fmt.Sprintln(latest), "pin --off")
	w.latest(latest)
}
