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

// minRetention is the minimum retention of a run's own records. With a shorter one, a topic may delete records that the
// run still has to read.
const minRetention = time.Hour

// ExamplesRetention is the retention settings of the examples topic. The zero value is unlimited.
type ExamplesRetention struct {
	Time    time.Duration // 0: unlimited
	Bytes   int64         // of a partition; 0: unlimited
	segment int64         // segment size, the unit of deletion
}

// CheckRetention returns the retention of the examples, and an error if a topic may lose records of a run during the run, or deletes
// records that must stay. Without permission to read the settings, it records a notice and returns the zero retention.
func CheckRetention(ctx context.Context, p *Pipeline, rec event.Recorder) (examples ExamplesRetention, err error) {
	t := p.Topics
	configs, err := checkedConfigs(ctx, p, rec, kept(t), t.Examples, t.Residuals, t.Statistics, t.Weights)
	if err != nil || configs == nil {
		return examples, err
	}
	for _, topic := range []string{t.Residuals, t.Statistics, t.Weights} {
		if r := RetentionOf(configs[topic]); r.Time > 0 && r.Time < minRetention {
			return examples, fmt.Errorf("%s retains messages for only %v, but a run needs them for at least %v: increase retention.ms", topic,
				r.Time, minRetention)
		}
	}
	examples = RetentionOf(configs[t.Examples])
	if p.Remade == nil {
		return examples, nil
	}
	source, archived := p.Remade.Source()
	if archived {
		return ExamplesRetention{}, nil
	}
	if configs, err = p.Admin.Configs(ctx, source); errors.As(err, new(*kafkalog.AccessError)) {
		event.Notice(rec, "retention of %s is not checked: %v", source, err)
		return ExamplesRetention{}, nil
	}
	// The last to go of a row are the messages of the topic with the longer retention.
	if r := RetentionOf(configs[source]); r.Time == 0 || r.Time > examples.Time {
		examples = r
	}
	return examples, err
}

// WeightsRetention returns the retention of the weights topic; 0: unlimited. Without permission to read the settings, it
// returns the minimum with which runs can be submitted.
func WeightsRetention(ctx context.Context, p *Pipeline) (time.Duration, error) {
	configs, err := p.Admin.Configs(ctx, p.Topics.Weights)
	if errors.As(err, new(*kafkalog.AccessError)) {
		return minRetention, nil
	}
	return RetentionOf(configs[p.Topics.Weights]).Time, err
}

// RetentionOf returns the retention in a topic's settings.
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

// Limit parses a limit in a topic's settings. known is false if there is no limit, or the setting is not a number.
func Limit(text string) (n int64, known bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return n, true
}

// runTime is the minimum retention of a run's examples: an hour, or a quarter of the topic's retention if that is less,
// since a run over a topic with a retention of minutes has to be short.
func (r ExamplesRetention) runTime() time.Duration { return min(minRetention, r.Time/4) }

// Staying removes from the bounds of the examples topic, at the start of each partition, the offsets that retention may
// delete before a run that starts now has ended.
//
// A partition with a size limit loses whole segments as messages are written. Its size is unknown, so Staying removes
// nothing before the first loss. From then on the partition has about r.bytes: it may lose as many messages as arrived in
// the last hour, and the rest of their segment.
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
