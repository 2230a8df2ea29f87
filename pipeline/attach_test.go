package pipeline

import (
	"errors"
	"testing"

	"github.com/stagewise/stagewise/pipeline/run/event"
)

// Attach returns the report and the model of a run that has ended, and an error for a run that does not exist.
func TestAttach(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	want, _ := train(t, log, job)
	report, model, err := Attach(t.Context(), log, job.Name, want.Run, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	if report.WeightsDigest != want.WeightsDigest || model.Digest() != want.WeightsDigest {
		t.Errorf("digest %s in the report and %s of the model, expected %s", report.WeightsDigest, model.Digest(), want.WeightsDigest)
	}
	if _, _, err := Attach(t.Context(), log, job.Name, "0123", event.Ignore{}); !errors.As(err, new(*UnknownRunError)) {
		t.Errorf("got error %v, expected an *UnknownRunError", err)
	}
}
