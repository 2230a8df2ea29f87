// Package solver is the role that turns statistics into weights, stage by stage:
//
//	statistics ──gather──▶ sums ──reduce──▶ sum ──solve──▶ weights
//
// Its state is a fold over messages, and it keeps nothing that is not on the topics. So if a solver is killed, another goes on with
// the same bits. Several solvers at once do no harm, as only the first record with the accepted parent counts.
package solver
