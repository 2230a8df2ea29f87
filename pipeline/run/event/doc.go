// Package event tells recorders what happens in a run:
//
//	pipeline, worker, solver ──Event──▶ Recorder: progress bar, logs, metrics, tests
//
// Numeric code records nothing. The code that calls it does.
package event
