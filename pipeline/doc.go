// Package pipeline trains: one run of a job, or a chain of runs as examples arrive.
//
//	job, log ──source, planning──▶ plan ──dispatch──▶ plans topic
//
//	        ┌──────────────── weights ◀───────────────┐
//	        ▼                                         │
//	plan ─▶ worker: ingest ▶ stages ▶ sink ▶ accumulate ─▶ statistics ─▶ solver: reduce ▶ solve
//	        │   ▲                                     ▲
//	        └─ residuals and their seals ─────────────┘
//
// The roles are in pipeline/worker and pipeline/solver, and their protocol is in pipeline/protocol. They communicate only
// through topics, even within one process. The next step of a worker is a pure function of the plan and the accepted
// weights. So a process that is killed and restarted continues where it was.
//
// Around the roles, imports run in one direction: topics, heed, source, planning, dispatch, replay, then this package. What the
// next run of a chain is trained on is determined by pipeline/chain. Operators change a pipeline through pipeline/admin.
package pipeline
