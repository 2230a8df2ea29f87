// Package page turns the topics of a pipeline into a page that people look at:
//
//	plans, weights, statistics, versions, quarantine ──Read──▶ State ──▶ Board ──▶ Server ──▶ a browser
//
// It only reads: it writes no message, joins no group, and commits no offset. So it works beside any number of
// processes, or in one of them, and may be started and stopped at any time.
package page
