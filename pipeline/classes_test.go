package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// sorted returns messages of 40 rows each, of which the first n have rows of one label. Row 7 of the first has another label, but overflows.
func sorted(t *testing.T, n, all int) (messages []kafkalog.Message) {
	for i := range all {
		rows := rings(40, 4, 3, uint64(i+1)).exampleRows()
		if i < n {
			for row := range rows.Words {
				rows.Words[row] = "ring0"
			}
		}
		if i == 0 {
			setTo(3e38, "ring1")(&rows)
		}
		messages = append(messages, exampleMessage(t, rows))
	}
	return messages
}

// The first version of a chain takes in rows until there are two classes, however many rows that are. A row that overflows has no class.
func TestChainBeginsWithTwoClasses(t *testing.T) {
	job, _ := newForeignJob(t, rings(1, 4, 3, 1))
	job.Stages = []schemas.Stage{kindStage(stages.RFF, link.Softmax)}
	job.Retrain = DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 80, FullOptions{}
	log := openEmbedded(t)
	writeAll(t, log, job, sorted(t, 7, 12))
	recorder := &eventRecorder{}
	report, err := Retrain(t.Context(), log, openBLAS(t), job, true, recorder)
	if err != nil {
		t.Fatal(err)
	}
	var rows []int64
	for _, u := range report.Updates {
		rows = append(rows, u.Rows)
	}
	if want := []int64{8*40 - 1, 80, 80}; !slices.Equal(rows, want) {
		t.Errorf("versions of %v new rows, expected %v", rows, want)
	}
	if notices := eventsOf[event.Noticed](recorder); len(notices) > 0 {
		t.Errorf("notices %v, expected none", notices)
	}
	if r, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}); err != nil || len(r.Updates) > 0 {
		t.Errorf("a second run made %d versions, error %v", len(r.Updates), err)
	}
}

// A chain that finds one class waits for another, and says so once. Up to the end of a topic that is an error, and no run fails for it.
func TestChainWaitsForASecondClass(t *testing.T) {
	job, _ := newForeignJob(t, rings(1, 4, 3, 1))
	job.Stages = []schemas.Stage{kindStage(stages.RFF, link.Softmax)}
	job.Retrain = DefaultRetrain()
	job.Retrain.Rows, job.Retrain.After = 80, 1
	log := openEmbedded(t)
	writeAll(t, log, job, sorted(t, 3, 3))
	_, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	if !errors.As(err, new(*solve.LabelsError)) || !strings.Contains(err.Error(), `all examples have the label "ring0"`) {
		t.Errorf("got error %v, expected that there is one label", err)
	}
	if runs := readLedger(t, open(log, job.Name, nil)).Chained(); runs != nil {
		t.Errorf("run %+v was made", runs)
	}
	recorder := &eventRecorder{}
	waits := make(chan struct{})
	done := make(chan error, 1)
	recorder.on = func(e event.Event) {
		switch e := e.(type) {
		case event.Noticed:
			if strings.Contains(e.Text, "waits for rows of another class: of 120 rows so far") {
				close(waits) // panics if it is said twice
			}
		case event.Retrained:
			done <- nil
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Retrain(ctx, log, openBLAS(t), job, false, recorder)
		ended <- err
		done <- err
	}()
	select {
	case <-waits:
	case err := <-done:
		t.Fatalf("the chain has ended: %v", err)
	}
	writeAll(t, log, job, sorted(t, 0, 4)[3:])
	if err := <-done; err != nil {
		t.Error(err)
	}
	cancel()
	<-ended
}
