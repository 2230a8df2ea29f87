// Package topics opens the pipeline of a job, configures its topics (their partitions, policies, retention and replicas), and keeps
// their messages readable after retention has deleted them.
//
//	Job ──Open──▶ Pipeline ──Create, CheckPolicies, ReadSettings, Apply──▶ topics
//	version ──Pin, Unpin, RemoveVersions──▶ plans topic, versions topic
//	examples, as ingest writes them ──Remade.Record──▶ origins: each message without its value
//	origins, messages of the followed topic ──Remade.Range──▶ the same messages, after retention has deleted them
//
// A [Remade] is a log whose examples topic begins where the followed topic does, so that the examples topic may have a shorter
// retention than that topic. Which messages have become which rows, in which batches, depends on when ingest read them, so the
// origins topic records that. The rows themselves do not depend on it.
//
// A Pipeline is a client of its topics that can also administer them. The sibling packages are functions over a Pipeline.
package topics
