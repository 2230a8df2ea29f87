// Package pipeline plans runs, submits them, and runs the two roles that work on them: worker and solver.
//
//	job, log ──ingest, plan──▶ plan ──submit──▶ plans topic
//
//	        ┌──────────────── weights ◀───────────────┐
//	        ▼                                         │
//	plan ─▶ worker: ingest ▶ stages ▶ sink ▶ accumulate ─▶ statistics ─▶ solver: reduce ▶ solve
//	        │   ▲                                     ▲
//	        └─ residuals and their seals ─────────────┘
//
// The roles are in pipeline/worker and pipeline/solver, and what they share is in pipeline/run. They communicate only by topics,
// even within one process. What a worker does next is a pure function of the plan and the accepted weights. So a process that
// is killed and started again continues where it was.
package pipeline
