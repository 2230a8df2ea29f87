// Package vocabulary converts texts to word counts: sparse rows with a column for each word, either hashed or from the
// words of the training texts.
package vocabulary
