// Package screen writes the output of commands:
//
//	events of a run ──Progress──▶ lines, a table and a progress bar
//	runs, versions, sources, topics, searches ──▶ tables and summaries
//	models, reports, pages ──Write──▶ the whole new file, or else the old one
//
// It only formats: it parses no flags and no configuration.
package screen
