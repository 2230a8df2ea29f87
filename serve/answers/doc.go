// Package answers writes the answers of a server to a topic, so that outcomes can be joined later, and models be trained
// on served predictions.
//
//	rows and their predictions ──Request──▶ messages ──Writer──▶ topic
//
// A server never waits for the topic. Messages wait in a buffer of limited size; those that do not fit are dropped, counted and reported.
package answers
