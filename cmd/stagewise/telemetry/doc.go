// Package telemetry exposes what a process does to other programs:
//
//	events of a run ──Logs──▶ records for log collectors
//	events of a run ──Serve──▶ /metrics for Prometheus, /live and /ready for orchestrators
package telemetry
