// Package screen writes for people:
//
//	events of a run ──Progress──▶ lines, a table and a progress bar
//	runs, versions, sources, topics, searches ──▶ tables and summaries
//
// It decides how things look, and nothing else: it parses no flags and no configuration.
package screen
