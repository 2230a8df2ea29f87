// Package dispatch submits runs, and executes them with the roles of this process in the order of the plans topic.
//
//	Plan ──SubmitJob──▶ plans topic ──Work, Solve, Members.Execute──▶ worker, solver ──Follow──▶ Report
package dispatch
