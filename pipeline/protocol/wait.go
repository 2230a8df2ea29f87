package protocol

import "time"

// A role that waits for another looks again and again whether the log has lost what it has written, or has something
// that it has not read: first after MinPatience, then after twice as long each time, up to MaxPatience.
const (
	MinPatience = 30 * time.Second
	MaxPatience = 5 * time.Minute
)

// Patience returns the next wait after a wait without a message.
func Patience(wait time.Duration) time.Duration { return min(2*wait, MaxPatience) }
