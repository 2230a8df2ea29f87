// Package columns is what a solver keeps of a chain on sparse rows: of each stage the sum of the terms of its window's increments, of a
// stage of columns the curvature, of a counted one the counts. Terms are on the state topic, each with the columns that occur in its
// increment. The sums follow from them, so they are written nowhere; in memory they go from run to run.
package columns
