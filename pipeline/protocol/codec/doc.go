// Package codec encodes and decodes the messages of the roles: records, documents, residuals, and
// JSON that can be followed. A process that reads its own messages decodes nothing twice.
//
//	Record, Plan, Manifest ──EncodeSingle, EncodeDouble──▶ messages ──Collect, DecodePlan──▶ Record, Plan, Manifest
package codec
