// Package export writes models in the formats of other programs:
//
//	Model ──Format.Write──▶ file
//
// Each format is one value in a file of its own, with one line in [All].
package export
