// Package preview says what a run would do, and what is wrong with its files:
//
//	configuration, the first rows of its files ──Write──▶ a table, and an error for each thing that a run would refuse
//
// It opens no log and writes no file.
package preview
