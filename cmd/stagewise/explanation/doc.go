// Package explanation reads labelled rows for package explain, and renders its reports:
//
//	file, model ──Read──▶ rows
//	explain.Report ──Write──▶ the screen, JSON for programs, a page
//	a run, its topic ──OfRun──▶ tables for the page of the run
package explanation
