// Package inbox holds the statistics of a run that have come and are not reduced yet: of each identity the first complete record.
package inbox
