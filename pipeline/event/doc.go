// Package event reports the events of a run to recorders:
//
//	pipeline, worker, solver ──Event──▶ Recorder: progress bar, logs, metrics, tests
//
// Numeric code records nothing. The code that calls it does.
package event
