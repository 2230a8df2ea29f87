package kafkalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// topic is a topic of the log, with its retention and compaction settings.
type topic struct {
	name       string
	partitions int

	deletes, compacts bool          // cleanup.policy; both may be set
	retention         time.Duration // retention.ms; negative: unlimited
	retentionBytes    int64         // retention.bytes, for a partition; negative: unlimited
	segmentBytes      int64         // segment.bytes
	segmentTime       time.Duration // segment.ms
	tombstones        time.Duration // delete.retention.ms
	lag               time.Duration // min.compaction.lag.ms
}

// lasts returns for how long a plan of a partition without changes is used: a sixteenth of the shortest time after which messages
// can be removed.
func (t *topic) lasts() time.Duration {
	shortest := time.Duration(math.MaxInt64)
	if t.deletes && t.retention >= 0 {
		shortest = min(t.retention, t.segmentTime)
	}
	if t.compacts {
		shortest = min(shortest, t.tombstones)
		if t.lag > 0 {
			shortest = min(shortest, t.lag)
		}
	}
	return shortest / 16
}

// topics reads the topics recorded by kfake. kfake records each change of them at once.
func (l *files) topics() ([]topic, error) {
	content, err := os.ReadFile(filepath.Join(l.dir, "topics.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var noted struct {
		Topics []struct {
			Name       string
			Partitions int
			Configs    map[string]string
		}
	}
	if err := json.Unmarshal(content, &noted); err != nil {
		damaged := &DamagedError{File: filepath.Join(l.dir, "topics.json"), Reason: err.Error()}
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			damaged.Position = syntax.Offset
		}
		return nil, damaged
	}
	var list []topic
	for _, t := range noted.Topics {
		number := func(name string, absent int64) int64 {
			if n, err := strconv.ParseInt(t.Configs[name], 10, 64); err == nil {
				return n
			}
			return absent
		}
		duration := func(name string, absent time.Duration) time.Duration {
			return time.Duration(min(number(name, absent.Milliseconds()), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
		}
		policy, set := t.Configs["cleanup.policy"]
		list = append(list, topic{
			name: t.Name, partitions: t.Partitions,
			deletes: !set || strings.Contains(policy, "delete"), compacts: strings.Contains(policy, "compact"),
			// Kafka's default is a week. Here a topic without retention settings of its own keeps its messages.
			retention:      duration("retention.ms", -time.Millisecond),
			retentionBytes: number("retention.bytes", -1),
			// The others are the defaults of kfake, or else of Kafka.
			segmentBytes: number("segment.bytes", 100<<20),
			segmentTime:  duration("segment.ms", 7*24*time.Hour),
			tombstones:   duration("delete.retention.ms", 24*time.Hour),
			lag:          duration("min.compaction.lag.ms", 0),
		})
	}
	return list, nil
}

// folder returns kfake's directory of a partition.
func (l *files) folder(topic string, partition int) string {
	return filepath.Join(l.dir, "partitions", fmt.Sprintf("%s-%d", url.PathEscape(topic), partition))
}
