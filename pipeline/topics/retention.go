package topics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// minRetention is how long a run may take, as far as its own records are concerned. A topic that keeps them for less time may delete
// what the run still has to read.
const minRetention = time.Hour

// RetentionError says that a topic may delete records of a run before the run has read them.
type RetentionError struct {
	Topic     string
	Retention time.Duration // the topic's retention.ms
}

func (e *RetentionError) Error() string {
	return fmt.Sprintf("%s retains messages for only %v, but a run needs them for at least %v: increase retention.ms", e.Topic, e.Retention,
		minRetention)
}

// ExamplesRetention is what the settings of the examples topic say about the deletion of messages. The zero value deletes nothing.
type ExamplesRetention struct {
	Time    time.Duration // 0: messages are not deleted by their age
	Bytes   int64         // of a partition; 0: they are not deleted by its size
	segment int64         // bytes of a segment, which is deleted as a whole
}

// CheckRetention returns a *RetentionError if a topic may lose records of a run during the run, a *PolicyError if one deletes what must
// stay, and the retention of the examples. If the settings can't be read for lack of permission, it records a notice
// and returns the zero retention.
func CheckRetention(ctx context.Context, p *Pipeline, rec event.Recorder) (examples ExamplesRetention, err error) {
	t := p.Topics
	configs, err := p.Admin.Configs(ctx, append(kept(t), t.Examples, t.Residuals, t.Statistics, t.Weights)...)
	if errors.As(err, new(*kafkalog.AccessError)) {
		event.Notice(rec, "topic retention is not checked: %v", err)
		return examples, nil
	}
	if err != nil {
		return examples, err
	}
	for _, topic := range kept(t) {
		if err := checkPolicy(topic, configs[topic]); err != nil {
			return examples, err
		}
	}
	for _, topic := range []string{t.Residuals, t.Statistics, t.Weights} {
		if r := RetentionOf(configs[topic]); r.Time > 0 && r.Time < minRetention {
			return examples, &RetentionError{topic, r.Time}
		}
	}
	return RetentionOf(configs[t.Examples]), nil
}

// WeightsRetention returns how long the weights topic keeps messages; 0: for ever. If the settings can't be read for
// lack of permission, it may be the shortest time with which runs are submitted.
func WeightsRetention(ctx context.Context, p *Pipeline) (time.Duration, error) {
	configs, err := p.Admin.Configs(ctx, p.Topics.Weights)
	if errors.As(err, new(*kafkalog.AccessError)) {
		return minRetention, nil
	}
	return RetentionOf(configs[p.Topics.Weights]).Time, err
}

// RetentionOf returns what a topic's settings say.
func RetentionOf(config map[string]string) (r ExamplesRetention) {
	if !strings.Contains(config["cleanup.policy"], "delete") {
		return r
	}
	if ms, known := Limit(config["retention.ms"]); known && ms < math.MaxInt64/int64(time.Millisecond) {
		r.Time = max(time.Duration(ms)*time.Millisecond, 1)
	}
	r.Bytes, _ = Limit(config["retention.bytes"])
	r.segment, _ = Limit(config["segment.bytes"])
	return r
}

// Limit parses a limit in a topic's settings. known is false if the setting means no limit, or is not a number.
func Limit(text string) (n int64, known bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return n, true
}

// runTime is how long the examples of a run must stay. It is an hour, or a quarter of their retention if that is less: a run over a
// topic that forgets within minutes has to be short.
func (r ExamplesRetention) runTime() time.Duration { return min(minRetention, r.Time/4) }

// Staying cuts from the bounds of the examples topic, at the beginning of each partition, what retention may delete before a run
// that begins now has ended. It returns the bounds without it.
//
// A partition that is limited in bytes loses whole segments as others are written. Its size is not known, so staying leaves out
// nothing before it has lost something for the first time. From then on it holds about r.bytes: it may lose as many messages as
// came in the last hour, and the rest of their segment.
func Staying(ctx context.Context, p *Pipeline, r ExamplesRetention, bounds []coverage.Span) ([]coverage.Span, error) {
	cut := append([]coverage.Span(nil), bounds...)
	if r.Time > 0 {
		old, err := p.Log.Before(ctx, p.Topics.Examples, r.Time-r.runTime())
		if err != nil {
			return nil, err
		}
		for n := range cut {
			cut[n].From = min(max(cut[n].From, old[n]), cut[n].To)
		}
	}
	if r.Bytes == 0 {
		return cut, nil
	}
	recent, err := p.Log.Before(ctx, p.Topics.Examples, minRetention)
	if err != nil {
		return nil, err
	}
	for n, all := range bounds {
		if all.From == 0 || all.Empty() {
			continue
		}
		held := float64(all.To - all.From)
		lost := float64(all.To-min(max(recent[n], all.From), all.To)) + held*min(float64(r.segment)/float64(max(r.Bytes, 1)), 1)
		cut[n].From = min(max(cut[n].From, all.From+int64(math.Ceil(lost))), cut[n].To)
	}
	return cut, nil
}
