package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run/event"
)

// minRetention is how long a run may take. A topic that keeps messages for less time may delete what the run still has to read.
const minRetention = time.Hour

// RetentionError says that a topic may delete messages before a run has read them.
type RetentionError struct {
	Topic     string
	Retention time.Duration // the topic's retention.ms
}

func (e *RetentionError) Error() string {
	return fmt.Sprintf("%s keeps messages for only %v, a run needs them for at least %v: increase retention.ms", e.Topic, e.Retention, minRetention)
}

// CompactionError says that a topic may drop a record that a worker still waits for.
type CompactionError struct {
	Topic string
	Lag   time.Duration // the topic's min.compaction.lag.ms
}

func (e *CompactionError) Error() string {
	return fmt.Sprintf("%s compacts messages after %v, a run needs them for at least %v: increase min.compaction.lag.ms", e.Topic, e.Lag, minRetention)
}

// checkRetention returns a *RetentionError or a *CompactionError if a topic may lose messages during a run. If the settings can't be
// read for lack of permission, it records a notice and returns nil.
func (p *pipeline) checkRetention(ctx context.Context, rec event.Recorder) error {
	t := p.Topics
	for _, topic := range []string{t.Examples, t.Residuals, t.Statistics, t.Weights, t.Plans} {
		config, err := p.admin.Config(ctx, topic)
		if errors.As(err, new(*kafkalog.AccessError)) {
			event.Notice(rec, "the retention of the topics is not checked: %v", err)
			return nil // the permission is usually missing for the other topics too
		}
		if err != nil {
			return err
		}
		policy := config["cleanup.policy"]
		if r, known := milliseconds(config["retention.ms"]); known && r < minRetention && policy != "compact" {
			return &RetentionError{topic, r}
		}
		if lag, known := milliseconds(config["min.compaction.lag.ms"]); known && lag < minRetention && strings.Contains(policy, "compact") {
			return &CompactionError{topic, lag}
		}
	}
	return nil
}

// milliseconds parses a duration in a topic's settings. known is false if the setting means no limit, or is not a number.
func milliseconds(text string) (d time.Duration, known bool) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms >= math.MaxInt64/int64(time.Millisecond) {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}
