// Package stages turns a batch of examples, and the predictions of the previous stage, into a block of features:
//
//	raw rows ──prepare.Preparation──▶ inputs ──Map──▶ block
//
// A [Map] computes features of one kind; kind.go defines kinds and lists all of them. All random numbers derive from
// the seed of the plan through the generator in draw.go. So a block is a pure function of the plan, the survey, the
// stage and the rows: it can be discarded and recomputed, in this process or in another.
package stages
