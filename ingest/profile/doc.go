// Package profile says what each column of a table may be for:
//
//	columns, cells ──Table──▶ what each column holds ──Roles──▶ label, numbers, categories, and columns to drop, each with the reason
//
// Memory is bounded, whatever the length of the table: a column keeps the words that a categorical column may have, and a sample of
// the hashes of its cells.
package profile
