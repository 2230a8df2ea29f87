// Package notice words what is odd about the examples of a run: labels that no training row has, and features that tell nothing apart.
package notice
