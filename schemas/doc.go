// Package schemas defines the messages that cross a topic: examples, residuals, statistics, weights, plans and manifests,
// with their Arrow schemas, identities and digests.
//
// Every other package of the flow imports schemas, and schemas imports none of them. The value of a message is a complete
// Arrow IPC stream of one record batch. Plans, their ends, stage reports, failures, manifests and the seals of sources
// are JSON instead. The headers say what a message is. FORMAT.md in this folder describes each message as a table, and
// testdata holds one message of each kind.
//
// Everything that is decoded here may come from a stranger. A decoder returns an error that wraps [ErrDamaged] for bytes
// that it can't read, and its memory is bounded by the number of bytes. Package schemas/stream does this for Arrow.
package schemas
