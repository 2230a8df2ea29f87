package run

import "fmt"

// NoExamplesError says that the examples topic has nothing to train on.
type NoExamplesError struct{ Topic string } // the examples topic

// Error returns the topic and what to do.
func (e *NoExamplesError) Error() string {
	return fmt.Sprintf("no examples on %s: name files under examples.train, or let a producer write there", e.Topic)
}
