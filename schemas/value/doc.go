// Package value parses the values of rows written by people and programs: numbers, booleans, words, labels and missing
// values, as text and as JSON. Files, topics, requests and messages of examples are all parsed here, so the same row has
// the same values from every source.
package value
