// Package paths finds the files that names in a configuration stand for: those that match a pattern, and the tables in a folder,
// with the values of columns that the names of folders have.
package paths
