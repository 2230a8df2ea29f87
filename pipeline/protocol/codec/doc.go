// Package codec encodes and decodes the messages of the roles: records, documents, residuals, and JSON. A process that
// reads its own messages does not decode them again.
//
//	Record, Plan, Manifest ──EncodeSingle, EncodeDouble──▶ messages ──Collect, DecodePlan──▶ Record, Plan, Manifest
package codec
