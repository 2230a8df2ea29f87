// Package chart is the script with which pages draw lines over axes.
package chart

import _ "embed"

//go:embed chart.js
var script string

// Script returns the functions plot and legend, and those that they are made of: h and g make elements of HTML and SVG, count
// and short write numbers, and ticks are round values of an axis. Pages give classes to what is drawn: series and dots for
// lines and points, with the kind of each series, grid, diagonal, small and legend.
func Script() string { return script }
