// Package schemas defines the messages of a pipeline's topics: plans and ends of runs, chains and windows,
// weights, residuals, predictions, reports and manifests, with their identities and digests.
//
// It builds on smaller packages: wire encodes all messages; coverage lists the messages and rows of a sum; examples
// and statistics define the messages of these topics. All other packages of the pipeline import
// them, and they import none of these. FORMAT.md in this folder describes each message in a table, and testdata has one
// message of each kind.
//
// All input is untrusted. Decoders return an error that wraps [wire.ErrDamaged] for invalid bytes, and their memory is
// bounded by the number of bytes. Package schemas/stream does this for Arrow.
package schemas
