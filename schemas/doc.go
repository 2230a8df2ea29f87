// Package schemas defines the messages of a pipeline's topics: plans and ends of runs, chains and windows,
// weights, reports and manifests, with their identities and digests.
//
// It builds on packages of one idea each: wire is the encoding of all messages, coverage lists the messages and rows of
// a sum, examples, statistics, residuals and prediction are the messages of these topics. Every other package of the flow imports them,
// and they import none of it. FORMAT.md in this folder describes each message as a table, and testdata holds one
// message of each kind.
//
// All input is untrusted. A decoder returns an error that wraps [wire.ErrDamaged] for bytes
// that it can't read, and its memory is bounded by the number of bytes. Package schemas/stream does this for Arrow.
package schemas
