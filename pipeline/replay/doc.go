// Package replay executes runs outside the pipeline, on temporary topics that it deletes afterwards: to verify a version, to
// search for better options, and to choose stages by the holdout loss of models with them.
//
//	version ──Verify──▶ the same digests, or the first that differs
//	jobs ──Search──▶ candidates with reports
//	job without stages, or whose stop rule ends its stages ──Resolve──▶ job with the stages of its run
package replay
