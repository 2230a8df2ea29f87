// Package wire encodes all messages: messages with headers, records of tensors in one message or many,
// documents of JSON in chunks, and the digests that identify them.
//
//	Record, JSON ──Encode──▶ []Message ──Collector, Documents──▶ Record, JSON
//
// The other packages in schemas define the contents of records and documents. All input is untrusted: errors wrap
// [ErrDamaged], and memory is bounded by the number of bytes.
package wire
