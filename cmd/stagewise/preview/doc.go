// Package preview shows what a run would do, and reports errors in its files:
//
//	configuration, the first rows of its files ──Write──▶ a table, and an error for everything that a run would reject
//
// It opens no log and writes no file.
package preview
