package run

import "time"

// How long a role waits for the others before it publishes again what it has published: first MinPatience, then twice as
// long each time, up to MaxPatience.
const (
	MinPatience = 30 * time.Second
	MaxPatience = 5 * time.Minute
)

// Patience returns the wait that follows one of that length.
func Patience(wait time.Duration) time.Duration { return min(2*wait, MaxPatience) }
