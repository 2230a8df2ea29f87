// Package jsonscan reads the JSON of a request in one pass and without allocating: numbers, words and members in any
// order, with errors that say where.
//
//	bytes ──Scanner──▶ numbers, words
package jsonscan
