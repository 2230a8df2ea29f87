package protocol

import (
	"context"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// NoPipelineError means that a pipeline has no topics.
type NoPipelineError struct {
	Topic string // its plans topic
	Key   string // the key that says where topics are
}

// Error includes the remedy.
func (e *NoPipelineError) Error() string {
	return fmt.Sprintf("read %s: %v; run stagewise train first, or check name and %s", e.Topic, kafkalog.ErrUnknownTopic, e.Key)
}

// RequirePipeline returns a *[NoPipelineError] if the pipeline of that name has no topics.
func RequirePipeline(ctx context.Context, log *kafkalog.Log, name string) error {
	plans, key := TopicsOf(name).Plans, "brokers"
	if log.Embedded() {
		key = "data_dir"
	}
	exists, err := log.Exists(ctx, plans)
	if err == nil && !exists {
		err = &NoPipelineError{plans, key}
	}
	return err
}

// UnclaimedError means that no process has started a run.
type UnclaimedError struct {
	What       string // missing role: "worker" or "solver"
	After      time.Duration
	Arithmetic schemas.Arithmetic // required by the run
}

// Error includes the waiting time and the requirements of the run.
func (e *UnclaimedError) Error() string {
	a := e.Arithmetic
	if a.Any {
		return fmt.Sprintf("no %s started the run within %v: it needs one with numerics %s", e.What, e.After, a.Numerics)
	}
	return fmt.Sprintf("no %s started the run within %v: it needs one with numerics %s, processor %s, BLAS %s and vector instructions %q",
		e.What, e.After, a.Numerics, a.Processor, a.BLAS, a.Vector)
}

// ExpiredError means that retention has deleted the first records of an unfinished run from the weights topic. A process
// that has not read them can't continue the run.
type ExpiredError struct {
	Run, Topic string
	First      int64 // first offset of the topic
}

// Error includes the topic and the remedy.
func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the first weights of run %s were deleted from %s, which now begins at offset %d: "+
		"increase topics.retention.weights beyond the duration of a run", e.Run, e.Topic, e.First)
}
