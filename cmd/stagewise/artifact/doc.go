// Package artifact writes the output files of commands: models, reports, pages.
//
//	content ──Write──▶ the whole new file, or else the old one
package artifact
