package schemas

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindDivision is the kind of a [Division] message.
const KindDivision wire.Kind = "division"

// Division is the number of examples partitions that a followed topic is ingested into: partition q goes to partition
// q mod Partitions. It is written before the first rows of an attempt to read the topic, so that processes that start
// before and after partitions were added divide it in the same way. Of several divisions of an attempt, the first on
// the topic wins. No two have the same key, because compaction would keep the last.
type Division struct {
	Topic      string `json:"topic"`      // followed topic
	Attempt    int    `json:"attempt"`    // attempt to read the topic: see [Origin]
	Partitions int    `json:"partitions"` // number of partitions of the examples
	Writer     string `json:"writer"`     // unique for each division
}

// Message encodes the division for the plans topic.
func (d *Division) Message() wire.Message {
	return wire.JSONMessage(KindDivision, "", fmt.Sprintf("division/%s/%d/%s", d.Topic, d.Attempt, d.Writer), d)
}

// Check returns an error for a division into no partitions.
func (d *Division) Check() error {
	if d.Partitions < 1 || d.Attempt < 1 {
		return fmt.Errorf("partitions is %d and attempt is %d, expected at least 1", d.Partitions, d.Attempt)
	}
	return nil
}
