// Package source writes examples to their topic: from files, each ingested once and sealed, and from a followed topic.
//
//	files ──Ingest──▶ examples, seals on the plans topic
//	topic ──Follow──▶ examples ──▶ how far it was read
package source
