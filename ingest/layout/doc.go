// Package layout assigns a role to each column of a row from any source: a feature,
// a word of several, a label, a target, a weight, or nothing.
//
// Options configure the columns. A Layout holds the roles of the columns of one
// file, and puts values in their places among the features. Places does so for
// single rows to predict.
package layout
