// Package dispatch submits runs, and executes them in the order of the plans topic with the roles of this process.
//
//	Plan ──SubmitJob──▶ plans topic ──Work, Solve, Members.Execute──▶ worker, solver ──Follow──▶ Report
package dispatch
