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

// minRetention is how long a run may well take. A topic that keeps messages for less time may delete what a run still reads.
const minRetention = time.Hour

// RetentionError says that a topic may delete messages before a run has read them.
type RetentionError struct {
	Topic     string
	Retention time.Duration
}

func (e *RetentionError) Error() string {
	return fmt.Sprintf("%s keeps messages for %v (retention.ms): a run needs them for at least %v", e.Topic, e.Retention, minRetention)
}

// CompactionError says that a topic may drop a record that a worker still waits for.
type CompactionError struct {
	Topic string
	Lag   time.Duration
}

func (e *CompactionError) Error() string {
	return fmt.Sprintf("%s compacts messages after %v (min.compaction.lag.ms): a run needs them for at least %v", e.Topic, e.Lag, minRetention)
}

// checkRetention returns a *RetentionError or a *CompactionError if a topic may lose messages under a run.
func (p *pipeline) checkRetention(ctx context.Context, rec event.Recorder) error {
	t := p.Topics
	for _, topic := range []string{t.Examples, t.Residuals, t.Statistics, t.Weights, t.Plans} {
		config, err := p.admin.Config(ctx, topic)
		if errors.As(err, new(*kafkalog.AccessError)) {
			event.Notice(rec, "whether the topics keep messages for as long as a run is not checked: %v", err)
			return nil // what we may not ask of one topic we may not ask of the others
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

// milliseconds reads a time of a topic's settings. It is not known if it is unlimited or can't be read.
func milliseconds(text string) (d time.Duration, known bool) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms >= math.MaxInt64/int64(time.Millisecond) {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}
