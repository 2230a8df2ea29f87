// Package artifact writes the files that commands leave: models, reports, pages.
//
//	content ──Write──▶ the whole new file, or else the old one
package artifact
