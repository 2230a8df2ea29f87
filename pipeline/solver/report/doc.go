// Package report computes the losses in reports of passes, members and splits from sums.
package report
