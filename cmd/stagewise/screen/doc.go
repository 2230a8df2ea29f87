// Package screen writes for people:
//
//	events of a run ──Progress──▶ lines, a table and a progress bar
//	runs, versions, sources, topics, searches ──▶ tables and summaries
//
// It only formats: it parses no flags and no configuration.
package screen
