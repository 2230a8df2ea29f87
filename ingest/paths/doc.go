// Package paths expands names in a configuration to files: those that match a pattern, and the tables in a directory, with
// partition values from directory names.
package paths
