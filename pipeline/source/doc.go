// Package source decides which rows runs learn from: it writes examples to their topic, from files, each ingested once and sealed, or
// from a followed topic, and excludes forgotten rows and the versions that have learnt them.
//
//	files ──Ingest──▶ examples, seals on the plans topic
//	topic ──Follow──▶ examples ──▶ the position on the topic
//	ToForget ──Forget──▶ forget topic ──ReadForgotten, CompareForgotten──▶ Forgotten ──HaveLearnt──▶ versions that have learnt the rows
//	plans topic ──ReadHistory──▶ History ──Runs──▶ the ancestor runs of a version
package source
