// Package dispatch plans and submits runs, and executes them in the order of the plans topic with the roles of this process.
//
//	Job, sealed sources, Forgotten ──Plan──▶ schemas.Plan ──SubmitJob──▶ plans topic
//	plans topic ──Work, Solve, Members.Execute──▶ worker, solver ──Follow──▶ Report
package dispatch
