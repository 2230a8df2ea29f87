package pipeline

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// The updates of a chain say how often what was served was wrong, by the versions that answered, as a naive count does, however little
// memory there is. The full run, for whose rows nobody had answered, says nothing.
func TestServedErrors(t *testing.T) {
	for _, memory := range []int64{1 << 30, 1} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			log, job := openEmbedded(t), forgetfulJob(t)
			job.Memory = memory
			random := rand.New(rand.NewPCG(3, 1))
			type sum struct{ rows, weight, wrong float64 }
			var want []map[int]sum // of each version, which has the rows of two messages
			for i := range 12 {
				rows := rings(40, 4, 3, uint64(i)).exampleRows()
				rows.Weights, rows.Served = make([]float32, rows.Rows), make([]examples.Served, rows.Rows)
				if i%2 == 0 {
					want = append(want, map[int]sum{})
				}
				counts := want[len(want)-1]
				for row := range rows.Rows {
					w := 1 + random.IntN(3)
					if rows.Weights[row] = float32(w); random.IntN(4) == 0 {
						continue // it was not served
					}
					served := examples.Served{Label: fmt.Sprint("ring", random.IntN(3)), Version: 1 + random.IntN(3)}
					rows.Served[row] = served
					s := counts[served.Version]
					if s.rows, s.weight = s.rows+1, s.weight+float64(w); served.Label != rows.Words[row] {
						s.wrong += float64(w)
					}
					counts[served.Version] = s
				}
				produce(t, log, job, 0, exampleMessage(t, rows))
			}
			versions := 0
			_, err := Retrain(t.Context(), log, openBLAS(t), job, true, recorderFunc(func(e event.Event) {
				r, ok := e.(event.Retrained)
				if !ok {
					return
				}
				var reports []schemas.ServedReport
				for _, version := range slices.Sorted(maps.Keys(want[versions])) {
					s := want[versions][version]
					reports = append(reports, schemas.ServedReport{Version: version, Rows: int64(s.rows), Error: 100 * (s.wrong / s.weight)})
				}
				if versions++; r.Kind == schemas.RunFull {
					reports = nil
				}
				if !slices.Equal(r.Served, reports) {
					t.Errorf("version %d says %v, expected %v", r.Version, r.Served, reports)
				}
			}))
			if err != nil || versions != len(want) {
				t.Fatalf("%d versions, %v", versions, err)
			}
		})
	}
}
