// Package notice formats warnings about the examples of a run: labels without training rows, and features that do not
// vary.
package notice
