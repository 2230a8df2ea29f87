// Package answers writes what a server has answered to a topic, so that outcomes can be joined to it later, and models learn from what was
// served.
//
//	rows and their predictions ──Request──▶ messages ──Writer──▶ topic
//
// A server never waits for the topic. Messages wait in a buffer of limited size; those that do not fit are dropped, counted and reported.
package answers
