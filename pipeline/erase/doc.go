// Package erase excludes rows from all future training, through the forget topic, and removes the versions trained on
// them.
//
//	ToForget ──Forget──▶ forget topic, Forgot
package erase
