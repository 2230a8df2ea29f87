// Package judge selects the rows on which the gate of a chain compares two versions.
package judge
