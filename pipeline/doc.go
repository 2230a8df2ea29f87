// Package pipeline trains: one run of a job, or a chain of runs as examples arrive.
//
//	job, log ──source──▶ examples ──dispatch──▶ plan, plans topic
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
// Around the roles, imports run in one direction: topics, source, dispatch, replay, then this package.
//
// The next run of a chain follows from its newest version, its window, and the messages that no run has processed:
//
//	messages, sealed sources ──backlog──cut──▶ spans of the next increment
//	newest version, window, new spans ──▶ plan of an update, or of a full run
//
// An update adds an increment to the sums and removes others; a full run fits the whole window.
package pipeline
