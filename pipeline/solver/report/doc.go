// Package report says how good predictions are: sums of losses as the reports of passes, members and splits have them.
package report
