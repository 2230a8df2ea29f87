// Package solver is the role that computes weights from statistics, stage by stage:
//
//	statistics ──gather──▶ sums ──reduce──▶ sum ──solve──▶ weights
//
// Its state is a fold over messages, and is not stored outside the topics. So if a solver is killed, another one continues
// and computes the same bits. Concurrent solvers are safe, since only the first record with the accepted parent counts.
package solver
