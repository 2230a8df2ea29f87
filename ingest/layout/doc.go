// Package layout assigns a role to each column of a row from any source: a feature, a category, a label, a target, a
// weight, or none.
//
// Options configure the columns. A Layout has the roles of the columns of one file, and turns blocks of its rows into
// examples: Fill is the only code that reads values by role. A Request is the layout of rows to predict that come from no file.
package layout
