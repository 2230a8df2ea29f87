//go:build kafka

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/client"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas/examples"
)

// A follower on real brokers has versions with trees, of a run and of a chain that keeps its trees, as their files have them: the
// latest, a pinned one, that before a removed one, and that of topics that are made anew.
func TestKafkaFollowersHaveTrees(t *testing.T) {
	brokers, name := kafkaBrokers(t), fmt.Sprintf("test-%d", time.Now().UnixNano())
	inFolder(t, map[string]string{"train.csv": garden(600), "trees.yaml": fmt.Sprintf(`name: %s
brokers: [%s]
examples: {train: [train.csv], label: kind, columns: {drop: [id, note, same]}, categorical: [colour], times: {planted: [weekday, age]}, missing: mean,
  missing_values: [NA, "?"], partitions: 2, batch_rows: 32}
stages: [{features: {kind: trees, size: 64, leaves: 8}}, {features: {kind: rff, size: 16}, passes: 3}]
retrain: {rows: 150, refresh: 1}
metrics: {listen: null}
`, name, strings.Join(brokers, ", "))})
	do := func(args ...string) string {
		t.Helper()
		stdout, _ := typed(t, exitDone, append(args, "-c", "trees.yaml")...)
		return stdout
	}
	do("topics", "create")
	f := valueOf(client.Follow(t.Context(), client.Options{Name: name, Brokers: brokers}))(t)
	defer f.Close()
	do("train", "--quiet")
	defer do("topics", "delete", "--yes")
	follows(t, f, 1, do)
	var report pipeline.Retraining
	noError(t, json.Unmarshal([]byte(do("run", "--until", "end", "--quiet", "--report", "-")), &report))
	if len(report.Updates) < 3 {
		t.Fatalf("a chain of %d versions", len(report.Updates))
	}
	latest := report.Updates[len(report.Updates)-1].Version
	follows(t, f, latest, do)
	do("weights", "pin", "1")
	follows(t, f, 1, do)
	do("weights", "pin", "--off")
	follows(t, f, latest, do)
	do("weights", "remove", fmt.Sprint(latest), "--even-latest")
	follows(t, f, latest-1, do)
	do("topics", "delete", "--yes")
	do("train", "--quiet")
	follows(t, f, 1, do)
}

// follows checks that a follower gets a version, and that it predicts as its file does.
func follows(t *testing.T, f *client.Follower, version int, do func(args ...string) string) {
	t.Helper()
	for {
		changed := f.Changed()
		if m := f.Model(); m != nil && m.Manifest.Version == version {
			break
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
	do("weights", "export", "--version", fmt.Sprint(version), "-o", "exported.model")
	file := valueOf(os.Open("exported.model"))(t)
	defer file.Close()
	exported := valueOf(model.Read(file))(t)
	followed := f.Model()
	if len(followed.Columns()) != 6 || followed.Columns()[3].Time != "weekday" {
		t.Errorf("version %d has the columns %s", version, followed.Columns().Text())
	}
	const n = 200
	r, d, k := rand.New(rand.NewPCG(1, uint64(version))), followed.Width(), len(followed.Labels())
	rows := &examples.Rows{Rows: n, Cols: d, Floats: make([]float32, n*d)}
	for i := range rows.Floats {
		if rows.Floats[i] = float32(6 * r.Float64()); r.IntN(5) == 0 {
			rows.Floats[i] = float32(math.NaN())
		}
	}
	got, want := make([]float32, n*k), make([]float32, n*k)
	followed.Probabilities(got, rows)
	exported.Probabilities(want, rows)
	if !slices.Equal(got, want) || slices.Max(got) == slices.Min(got) {
		t.Errorf("version %d: the follower predicts otherwise than the file", version)
	}
}
