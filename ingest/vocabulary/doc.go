// Package vocabulary turns texts into counts of words: sparse rows with a column
// for each word, which a hash gives, or the words of the texts to train on.
package vocabulary
