// Package wire encodes all messages: messages with headers, records of tensors in one message or many,
// documents of JSON in chunks, and the digests that identify them.
//
//	Record, JSON ──Encode──▶ []Message ──Collector, Documents──▶ Record, JSON
//
// The packages beside it define the contents of records and documents. All input is
// untrusted: an error wraps [ErrDamaged], and the memory is bounded by the number of bytes.
package wire
