package protocol

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// NoPipelineError means that a pipeline has no topics.
type NoPipelineError struct {
	Topic string // its plans topic
	Key   string // the configuration key of the location of topics
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

// NoExamplesError means that the examples topic has no training examples.
type NoExamplesError struct {
	Topic string // examples topic
	Other bool   // the topic belongs to another pipeline
	From  string // topic that ingest follows; "": none
	Bad   int    // number of unusable messages
	First error  // error and position of the first unusable message; nil: there is none
	// Unusable is the reason and the position of an unusable message of From; "": none is in quarantine.
	Unusable string
	// PassedOver counts the messages that the run excludes, by reason.
	PassedOver coverage.PassedOver
}

// Error includes the topic and the remedy, or why its messages are unusable.
func (e *NoExamplesError) Error() string {
	if e.First != nil {
		return fmt.Sprintf("no examples on %s: none of its %d messages can be used. The first is %v", e.Topic, e.Bad, e.First)
	}
	text := "no examples on " + e.Topic
	if e.Unusable != "" {
		return text + ": no message of " + e.From + " could be used. " + e.Unusable
	}
	for _, r := range coverage.PassOverReasons() {
		if n := e.PassedOver[r.Reason]; n > 0 {
			text += fmt.Sprintf(", apart from %s %s", english.Plural(int(n), r.What, ""), r.Meaning)
		}
	}
	if e.Other {
		return text + ": check that producers write to the topic in examples.topic"
	}
	if e.From != "" {
		return text + ": `stagewise ingest` writes those of " + e.From + " there"
	}
	return text + ": name files under examples.train, or let a producer write there"
}

// Unwrap returns First.
func (e *NoExamplesError) Unwrap() error { return e.First }
