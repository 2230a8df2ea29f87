// Package schemas holds the nouns that cross a topic: examples, residuals,
// statistics, weights, plans and manifests, with their Arrow schemas, their
// identities and their digests.
//
// It is the start of every arrow of the flow and imports none of it. A value
// on a topic is a complete Arrow IPC stream (schema and batch), or JSON for
// plans and their ends, seals of sources, failures and manifests; who and what it is stands
// in the headers. FORMAT.md in this folder draws each message as a table, and
// testdata holds a golden of each.
package schemas
