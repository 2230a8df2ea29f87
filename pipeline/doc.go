// Package pipeline joins the verbs: the roles of a worker and a solver, and a
// whole run of both in one process.
//
//	        ┌──────────────── weights ◀───────────────┐
//	        ▼                                         │
//	plan ─▶ worker: ingest ▶ stages ▶ sink ▶ accumulate ─▶ statistics ─▶ solver: reduce ▶ solve
//	        │   ▲                                     ▲
//	        └─ residuals and their seals ─────────────┘
//
// Roles meet only on topics, in one process too. What a worker does next is a
// pure function of the plan and the accepted weights, so a process that is
// killed and started again goes on where it was.
package pipeline
