// Package remade makes expired examples again from the topic that they were made from, so that the examples topic may have a
// shorter retention than that topic.
//
//	examples, as ingest writes them ──Record──▶ origins: each message without its value
//	origins, messages of the followed topic ──Log.Range──▶ the same messages, after retention has deleted them
//
// A [Log] is a log whose examples topic begins where the followed topic does. Which messages have become which rows, in which
// batches, depends on when ingest read them, so the origins topic has it. The rows themselves do not.
package remade
