// Package profile suggests roles for the columns of a table:
//
//	columns, cells ──Table──▶ column profiles ──Roles──▶ label, numbers, categories, and columns to drop, with reasons
//
// Memory does not depend on the length of the table: a column keeps the words for a categorical column, and a sample of
// the hashes of its cells.
package profile
