// Package judge chooses the rows by which the gate of a chain compares two versions.
package judge
