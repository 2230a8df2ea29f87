// Package outcome joins the rows of a topic with outcomes that arrive later on another topic:
//
//	rows, outcomes ──Join──▶ rows with labels, in the order in which they are decided
//
// # Which rows become examples
//
// The set of examples and their labels is a function of both topics. It depends only on message times, offsets and keys:
//
//   - The time of a message is the latest time of the messages of its partition up to it. So it never goes back within a partition, and
//     says in one pass that nothing earlier is to come. A message without a time has that of the one before it.
//   - A row of time t has its outcome in the first outcome with its key whose time is from t − early to t + within. First is the one with
//     the earliest time; of several, the one in the lowest partition; then the one with the lowest offset. Within a partition that is the
//     order of the offsets, so of several outcomes of a row the first one counts.
//   - Without one the row is decided as absent once each partition of the outcomes is past t + within: one of its messages has a later
//     time. Nothing that comes then can be the row's outcome.
//
// Each message is a row of its own. Two with one key both get the outcome. An outcome is not used up.
//
// A label may be any text that says what the outcome says: package later makes it of several labels, and of numbers.
//
// A silent partition holds rows back, because outcomes may still arrive on it. It counts as past a time if it has been read to its end,
// and the latest message of another partition of that topic is later by more than idle: see [Join.Pass]. This is the only assumption: a
// message is on its topic before the other partitions are idle past its time. A row whose outcome arrives even later may have been decided
// as absent. If the whole topic is silent, its rows wait: the service that writes outcomes may be down. An outcome message with an empty
// value advances the time, and is not an outcome.
//
// # In which order
//
// A row is decided when the later of it and its outcome is read, and the order of an outcome among those of all partitions is known. Rows
// that are decided together are in the order of their deadlines, partitions and offsets; those of one outcome too. What a topic already has
// is read in the order of the times, rows before outcomes, so that only rows of the last within wait: two processes that begin late decide
// in the same order. What comes while they follow the topics is decided as it comes. The order in which messages arrive changes the order
// of the examples, never the set and the labels.
//
// # Where it goes on
//
// What waits is a function of how far the topics were read, and of three places, which [Join.Cursor] returns and the examples carry: rows
// with a deadline before Due no longer wait, outcomes before Applied have met the rows that waited, and Labelled messages have met the
// outcome at Applied. A process that begins again reads what may wait from the topics with [Join.AddRow] and [Join.AddOutcome], and goes on
// with the same bits. So it keeps nothing of its own: what waits is a cache.
//
// # Where it waits
//
// Rows and outcomes wait in memory up to a limit. Beyond it the oldest go to a Pebble store on disk. Each row is written
// and removed once, at keys in no order: a log-structured merge tree writes that in sequence, which a B+ tree such as bbolt does not. It
// has no log of its own and is not synchronised, because the topics have all of it. What an ended process has left is removed.
package outcome
