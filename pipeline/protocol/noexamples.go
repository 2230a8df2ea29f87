package protocol

import (
	"fmt"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/schemas/coverage"
)

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
