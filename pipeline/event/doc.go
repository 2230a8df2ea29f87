// Package event reports the events of a run to recorders:
//
//	pipeline, worker, solver ──Event──▶ Recorder: progress bar, logs, metrics, tests
//
// Numeric code records no events; its callers do.
package event
