// Package event is what happens in a run, for whoever listens:
//
//	pipeline, worker, solver ──Event──▶ Recorder: progress bar, logs, metrics, tests
//
// Numeric code records nothing. Whoever calls it does.
package event
