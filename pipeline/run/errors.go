package run

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/schemas"
)

// NoExamplesError says that the examples topic has nothing to train on.
type NoExamplesError struct {
	Topic string // the examples topic
	Other bool   // it is not the pipeline's own
	Bad   int    // how many messages can't be used
	First error  // why the first of them can't be used, and where it is; nil: there is none
	// PassedOver counts the messages that the run leaves out, by the reason.
	PassedOver schemas.PassedOver
}

// Error returns the topic and what to do, or why its messages can't be used.
func (e *NoExamplesError) Error() string {
	if e.First != nil {
		return fmt.Sprintf("no examples on %s: none of its %d messages can be used. The first is %v", e.Topic, e.Bad, e.First)
	}
	text := "no examples on " + e.Topic
	for _, r := range schemas.PassOverReasons() {
		if n := e.PassedOver[r.Reason]; n > 0 {
			text += fmt.Sprintf(", beside %s %s", english.Plural(int(n), r.What, ""), r.Meaning)
		}
	}
	if e.Other {
		return text + ": check that examples.topic names a topic to which somebody writes"
	}
	return text + ": name files under examples.train, or let a producer write there"
}

// Unwrap returns First.
func (e *NoExamplesError) Unwrap() error { return e.First }

// UnclaimedError says that nobody has taken up a run.
type UnclaimedError struct {
	What       string // who is missing: "worker" or "solver"
	After      time.Duration
	Arithmetic schemas.Arithmetic // that the run needs
}

// Error returns how long nobody came, and who can take the run up.
func (e *UnclaimedError) Error() string {
	a := e.Arithmetic
	if a.Any {
		return fmt.Sprintf("no %s has taken the run up within %v: it needs one with numerics %s", e.What, e.After, a.Numerics)
	}
	return fmt.Sprintf("no %s has taken the run up within %v: it needs one with numerics %s, processor %s, BLAS %s and vector instructions %q",
		e.What, e.After, a.Numerics, a.Processor, a.BLAS, a.Vector)
}

// ExpiredError says that the first records of an unfinished run are gone from the weights topic, as retention deletes what is old. Who has not
// read them can't take the run up.
type ExpiredError struct {
	Run, Topic string
	First      int64 // offset of the topic
}

// Error returns which records are gone, and what to do.
func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the first weights of run %s were deleted from %s, which begins at offset %d now: increase topics.retention.weights beyond the time that a run takes", e.Run, e.Topic, e.First)
}
