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
// The roles are in pipeline/worker and pipeline/solver, and their protocol is pipeline/protocol. They communicate only by topics,
// even within one process. The next step of a worker is a pure function of the plan and the accepted weights. So a process that
// is killed and restarted continues where it was.
//
// Around the roles, imports run one way: topics, heed, source, planning, erase and dispatch, then this package, replay and versions.
// What a chain learns next is decided by pipeline/backlog, which cuts new messages into increments, and pipeline/chain.
package pipeline
