// Package layout assigns a role to each column of a row from any source: a feature, a category, a label, a target, a
// weight, or none.
//
// Options configure the columns. A Layout has the roles of the columns of one file, and writes values to their feature
// positions. Places does so for single rows to predict.
package layout
