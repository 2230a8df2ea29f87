// Package examples defines the message of the examples topic: a batch of rows with features, labels, weights and splits,
// dense or sparse, with the table columns of the features.
//
//	Rows ──Record, Encode──▶ Arrow ──Decode──▶ Rows ──Features, Classes──▶ numbers
//
// It decodes the messages of all producers. An error wraps [wire.ErrDamaged], and names the row and the column.
package examples
