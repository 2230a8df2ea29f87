package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/viterin/vek/vek32"
	"golang.org/x/sys/cpu"

	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

// A chain that another release began goes on by updates, with the weights that the other release would have made:
// testdata/upgrade has the log of the program of commit e14b2ca after three updates, which had these digests after five
// more. It was made by
//
//	STAGEWISE_BLAS=gonum STAGEWISE_VECTOR=none stagewise run -c chain.yaml --until end
//
// of that commit, with first.csv alone. Other architectures round differently.
func TestChainOfAnEarlierReleaseGoesOn(t *testing.T) {
	features, accelerated := cpu.X86, vek32.Info().Acceleration
	defer func() {
		cpu.X86 = features
		vek32.SetAcceleration(accelerated)
	}()
	source, err := filepath.Abs("testdata/upgrade")
	if err != nil {
		t.Fatal(err)
	}
	inFolder(t, nil)
	t.Setenv("STAGEWISE_VECTOR", "none")
	if err := os.CopyFS(".", os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-xzf", "log.tar.gz").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	keepMessages(t, "log/log/topics.json")

	code, stdout, stderr := stagewise("run", "-c", "chain.yaml", "--until", "end", "--quiet", "--report", "-")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var report pipeline.Retraining
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	for i, u := range report.Updates {
		if want := int64(80 + 20*i); u.Version != 4+i || u.Kind != schemas.RunUpdate || u.WindowRows != want {
			t.Errorf("version %d is %+v, expected an update to a window of %d rows", 4+i, u, want)
		}
	}
	const want = "7bd2c77c798c"
	if got := report.WeightsDigest; len(report.Updates) != 5 || got.Short() != want {
		t.Errorf("%d versions, the last with weights %s, expected 5 and %s", len(report.Updates), got.Short(), want)
	}
}

// keepMessages makes the topics of a log keep their messages for ever. The messages are of the day that the log was made on.
func keepMessages(t *testing.T, topics string) {
	t.Helper()
	text, err := os.ReadFile(topics)
	if err != nil {
		t.Fatal(err)
	}
	kept := regexp.MustCompile(`"retention.ms":"[0-9]+"`).ReplaceAll(text, []byte(`"retention.ms":"-1"`))
	if err := os.WriteFile(topics, kept, 0o600); err != nil {
		t.Fatal(err)
	}
}
