// Package telemetry tells other programs what a process does:
//
//	events of a run ──Logs──▶ records for log collectors
//	events of a run ──Serve──▶ /metrics for Prometheus, /live and /ready for whoever restarts containers
package telemetry
