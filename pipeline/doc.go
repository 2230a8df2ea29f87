// Package pipeline joins the verbs: it plans runs, submits them, and brings worker and solver to them.
//
//	job, log ──ingest, plan──▶ plan ──submit──▶ plans topic
//
//	        ┌──────────────── weights ◀───────────────┐
//	        ▼                                         │
//	plan ─▶ worker: ingest ▶ stages ▶ sink ▶ accumulate ─▶ statistics ─▶ solver: reduce ▶ solve
//	        │   ▲                                     ▲
//	        └─ residuals and their seals ─────────────┘
//
// The roles are in pipeline/worker and pipeline/solver; pipeline/run is what they share. They meet only on topics, in one
// process too. What a worker does next is a pure function of the plan and the accepted weights, so a process that is killed
// and started again goes on where it was.
package pipeline
