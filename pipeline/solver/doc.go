// Package solver is the role that turns statistics into weights, stage by stage:
//
//	statistics ──gather──▶ sums ──reduce──▶ sum ──solve──▶ weights
//
// Its state is a fold over what is on the topics: it keeps nothing that it has not published, so another solver goes on where
// one was killed, with the same bits. Several solvers at once do no harm, as only the first record with the accepted parent
// counts.
package solver
