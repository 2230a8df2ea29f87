// Package artifact writes the output of commands: models, reports and pages as files, and tables on a terminal.
//
//	content ──Write──▶ the whole new file, or else the old one
package artifact
