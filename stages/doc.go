// Package stages turns a batch of examples, and the predictions of the stage before, into a block of features:
//
//	raw rows ──prepare.Preparation──▶ inputs ──Map──▶ block
//
// A [Map] computes features of one kind; kind.go defines kinds and has the table of all of them. All random numbers come from
// the seed of the plan through the generator in draw.go. So a block is a pure function of the plan, the survey,
// the stage and the rows: it can be discarded and recomputed, in this process or in another.
package stages
