// Package jsonscan scans the JSON of a request in one pass and without allocations: numbers, words and members in any
// order, with the position in errors.
//
//	bytes ──Scanner──▶ numbers, words
package jsonscan
