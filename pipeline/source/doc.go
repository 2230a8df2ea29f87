// Package source writes examples to their topic: from files, each ingested once and sealed, or from a followed topic.
//
//	files ──Ingest──▶ examples, seals on the plans topic
//	topic ──Follow──▶ examples ──▶ the position on the topic
package source
