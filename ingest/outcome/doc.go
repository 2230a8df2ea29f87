// Package outcome joins the rows of a topic with outcomes that arrive later on another topic:
//
//	rows, outcomes ──Join──▶ rows with labels, in the order of their decisions
//
// # Which rows become examples
//
// The set of examples and their labels is a function of both topics. It depends only on message timestamps, offsets and
// keys:
//
//   - The time of a message is its timestamp. One without a timestamp has the latest time of its partition up to it.
//   - An outcome belongs to a row at time t if it has its key and a time from t − early to t + within: the difference of the messages'
//     own times decides, regardless of their order of arrival.
//   - The position of an outcome in the topic is the latest time of its partition up to it, then the partition, then the offset. Of
//     several outcomes of a row the first by position counts. Within a partition that is the order of the offsets.
//   - A row is decided once each partition of the outcomes is past t + within + grace, that is, has a message with a later time. An
//     outcome at a later position does not count. Without an earlier one, the row is absent.
//   - An outcome is kept until all partitions of the rows are past its position + early + grace. So a row that is farther behind its
//     partition has only those outcomes whose position is at most early + grace before the latest time of its own partition.
//
// Each message is a separate row. Two rows with the same key both get the outcome. An outcome is not consumed.
//
// A label is any text that encodes the outcome: package ingest encodes several labels, and targets.
//
// A silent partition blocks rows, because outcomes may still arrive on it. It counts as past a time if it has been read to
// its end, and the latest message of another partition of that topic is later by more than idle: see [Join.Pass]. This is
// the only assumption: a message arrives before the other partitions are idle past its time. A row whose outcome arrives
// even later may have been decided as absent. If the whole topic is silent, its rows wait, since the service that writes
// outcomes may be down. An outcome message with an empty value advances the time, and is not an outcome.
//
// # Order
//
// A row is decided when both it and its outcome are read, and the order of the outcome among those of all partitions is
// known. Rows decided together are ordered by deadline, partition and offset; so are the rows of one outcome. Existing
// messages of a topic are read in timestamp order, rows before outcomes, so that only the rows of the last within wait:
// two processes that start late decide in the same order. Messages that arrive while a process follows the topics are
// decided as they arrive. The order of arrival affects the order of the examples, never the set and the labels.
//
// # Recovery
//
// The waiting rows and outcomes are a function of the read positions, and of three more positions, which [Join.Cursor]
// returns and the examples carry: rows with a deadline before Due no longer wait, outcomes before Applied have been joined
// with the waiting rows, and Labelled messages have been joined with the outcome at Applied. A restarted process reads the
// possibly waiting messages again until [Join.Resume], and continues with the same bits. So it stores no state of its own: the
// waiting entries are a cache.
//
// # Storage
//
// A row waits until its deadline, t + within + grace. Once it has its outcome only its key is needed, so that further outcomes of it are
// not counted as outcomes without a row.
//
// Rows and outcomes wait in memory up to a limit. Beyond it the oldest are moved to disk, about half of them at once, as a segment: a
// file of entries in order of position, followed by an index, which is their locations by hash of the key. A segment does not change.
// In memory it has a Bloom filter, a bit for each settled entry, and its first entry. Entries expire in order, so that a segment is
// closed as a whole. Nothing is synced, because the topics have all of the data, and the files are unlinked as soon as they are open: a
// process that is killed leaves none.
package outcome
