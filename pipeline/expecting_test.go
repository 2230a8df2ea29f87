package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// retraining retrains until a test ends, and records what it reports. expected and standing have a value once it has.
func retraining(t *testing.T, brokers []string) (expected <-chan event.Expecting, standing <-chan event.StoodBy) {
	t.Helper()
	log := must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: brokers}))(t)
	closeAfter(t, log)
	job := chainJob(t, "softmax")
	job.Retrain.Rows, job.Retrain.After = 10000, time.Hour
	expects, stands := make(chan event.Expecting, 100), make(chan event.StoodBy, 100)
	recorder := &eventRecorder{on: func(e event.Event) {
		switch e := e.(type) {
		case event.Expecting:
			expects <- e
		case event.StoodBy:
			stands <- e
		}
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Retrain(ctx, log, openBLAS(t), job, false, recorder)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return expects, stands
}

// A process that retrains says what it waits for, and one that stands by says so, at once: not when patience ends.
func TestRetrainingSaysWhatItWaitsFor(t *testing.T) {
	long(t)
	log := openEmbedded(t)
	timeout := time.After(protocol.MaxPatience / 10)
	expected, _ := retraining(t, log.Addr())
	select {
	case e := <-expected:
		if e.Rows < 1400 || e.Rows > 1600 || e.Of != 10000 || e.After != time.Hour || time.Until(e.Until) < 50*time.Minute || e.Again {
			t.Errorf("%+v", e)
		}
	case <-timeout:
		t.Fatal("it does not say what it waits for")
	}
	_, standing := retraining(t, log.Addr())
	select {
	case e := <-standing:
		if e.Role != protocol.RoleRun || e.Why != "another process retrains this pipeline: this one stands by" {
			t.Errorf("%+v", e)
		}
	case <-timeout:
		t.Fatal("it does not say that it stands by")
	}
}
