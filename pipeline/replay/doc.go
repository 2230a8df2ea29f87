// Package replay repeats runs outside the pipeline, on temporary topics: to verify a version, or to search for better
// options.
//
//	version ──Verify──▶ the same digests, or the first that differs
//	jobs ──Search──▶ candidates with reports
package replay
