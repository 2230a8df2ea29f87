// Package columns is a solver's state for a chain on sparse rows: for each stage the sum of the terms of the window's
// increments, for a columns stage the curvature, for a counted stage the counts. Terms are on the state topic, each with
// the columns that occur in its increment. The sums are derived from them, so they are not stored; in memory they are
// passed from run to run.
package columns
