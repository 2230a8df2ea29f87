package event

import (
	"cmp"
	"log/slog"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Logger writes a record to a log.
type Logger func(level slog.Level, message string, attributes ...any)

// Log calls log for each log record of an event, with attributes in the form of [slog.Logger.Log]: the event's fields, and what follows
// from them. Errors are in percent, as in a report, and durations in seconds.
func Log(e Event, log Logger) {
	record := func(level slog.Level, message string, more ...any) {
		log(level, message, append(attributes(e), more...)...)
	}
	switch e := e.(type) {
	case Ingested:
		if e.Done {
			record(slog.LevelInfo, "ingested")
		}
	case Joined:
		c := e.Counts
		log(slog.LevelDebug, "joined", "rows", c.Rows, "absent", c.Absent, "outcomes", c.Outcomes, "without_row", c.Alone(), "late", c.Late,
			"disorder_ms", c.Disorder)
	case Following:
		record(slog.LevelInfo, "follows")
	case Serving:
		log(slog.LevelInfo, "serving", "metrics", "http://"+e.Address+"/metrics")
	case Answers:
		if e.Version == 0 {
			log(slog.LevelWarn, "no version", "because", e.Why)
		} else {
			record(slog.LevelInfo, "answers")
		}
	case ScoringLag:
		for partition, offsets := range e.Offsets {
			log(slog.LevelDebug, "scoring lag", "partition", partition, "offsets", offsets)
		}
	case PageServed:
		record(slog.LevelInfo, "shown")
	case Began:
		log(slog.LevelInfo, "began", "resumed", e.Resumed, "stages", len(e.Stages))
	case Retrained:
		level, more := retrained(e)
		record(level, "retrained", more...)
	case Replaced:
		record(slog.LevelWarn, "replaced")
	case Lost:
		record(slog.LevelWarn, "lost messages", "messages", e.To-e.From)
	case ColumnLost:
		if e.Rows > 0 {
			record(slog.LevelWarn, "column lost")
		}
	case Incomplete:
		record(slog.LevelWarn, "incomplete version")
	case Expecting:
		level := slog.LevelInfo
		if e.Again {
			level = slog.LevelDebug
		}
		record(level, "waits for rows")
	case StoodBy:
		record(slog.LevelInfo, "stands by")
	case SourceLag:
		record(slog.LevelDebug, "source lag")
	case Quarantined:
		e.Topic, e.Messages = cmp.Or(e.Topic, "examples"), max(e.Messages, 1)
		log(slog.LevelWarn, "quarantined", attributes(e)...)
	case Surveyed:
		record(slog.LevelInfo, "surveyed", "rows", e.Rows[examples.Train], "passed_over", e.PassedOver)
	case Passed:
		var more []any
		for n := range examples.Splits {
			split := examples.Split(n)
			if m := e.Metrics[split]; m.Rows > 0 || split == examples.Train {
				more = append(more, split.String()+"_error", m.Error, split.String()+"_loss", m.Loss)
			}
		}
		record(slog.LevelInfo, "passed", more...)
	case StageEnded:
		record(slog.LevelInfo, "stage ended")
		if e.Average != nil {
			log(slog.LevelInfo, "members averaged", attributes(*e.Average)...)
		}
	case Followed:
		level := slog.LevelInfo
		if !e.Staff.Embedded && (len(e.Staff.Workers) == 0 || len(e.Staff.Solvers) == 0) {
			level = slog.LevelWarn
		}
		record(level, "follows", "workers", e.Staff.Workers, "solvers", e.Staff.Solvers, "embedded", e.Staff.Embedded)
	case StoodAside:
		if e.Over {
			log(slog.LevelInfo, "no longer stands aside", "for", e.Run)
		} else {
			log(slog.LevelWarn, "stands aside", "for", e.Run, "because", e.Why)
		}
	case Solving:
		if e.Active {
			log(slog.LevelInfo, "solves")
		} else {
			log(slog.LevelInfo, "stands by")
		}
	case Ended:
		level := slog.LevelError
		switch e.State {
		case schemas.Done:
			level = slog.LevelInfo
		case schemas.Cancelled:
			level = slog.LevelWarn
		}
		record(level, "ended")
	case Owned:
		record(slog.LevelInfo, "owns")
	case Waiting:
		seconds := rounded(e.Since.Seconds())
		switch {
		case e.Over && e.Err == nil:
			log(slog.LevelInfo, "resumed", "after", e.What, "seconds", seconds)
		case e.Over:
			log(slog.LevelError, "gave up", "after", e.What, "seconds", seconds, "because", e.Err)
		default:
			log(slog.LevelWarn, "waiting", "for", e.What, "seconds", seconds, "because", e.Err)
		}
	case Noticed:
		log(slog.LevelWarn, e.Text)
	case Behind, Progressed:
		record(slog.LevelDebug, strings.ToLower(reflect.TypeOf(e).Name()))
	case Advanced, Answering, Predicted, Scored, Sealed, Solved, Visited:
		record(slog.LevelInfo, strings.ToLower(reflect.TypeOf(e).Name()))
	}
}

// retrained returns the level of the record of a version of a chain, and the attributes beside those of its report.
func retrained(e Retrained) (level slog.Level, more []any) {
	for _, s := range e.Served {
		more = append(more, slog.Group("served_"+strconv.Itoa(s.Version), "error", s.Error, "rows", s.Rows))
	}
	if g := e.Gate; g != nil {
		more = append(more, "gate_loss", g.Loss, "gate_offered_loss", g.OfferedLoss)
	}
	if o := e.Outcomes; o != nil {
		more = append(more, "outcomes", o.Outcomes, "without_row", o.Alone, "late", o.Late)
		if o.Withhold() {
			more = append(more, "why", o.Why())
		}
	}
	if e.Drift || !e.Offered || e.MostlyBad != nil || e.Lost+e.Gone > 0 || e.Unseen {
		level = slog.LevelWarn
	}
	if b := e.MostlyBad; b != nil {
		more = append(more, "bad_messages", b.Messages, "of_messages", b.Of, "partition", b.Partition, "offset", b.Offset, "reason", b.Reason)
	}
	return level, more
}

// attributes returns the fields of an event or a report, with their names in logs: those of the tags log or json, or else in lower case.
// All records have the id of the run. Values with parts of their own are left out, and what a report does not have.
func attributes(of any) (list []any) {
	for field, value := range reflect.ValueOf(of).Fields() {
		name, _, _ := strings.Cut(cmp.Or(field.Tag.Get("log"), field.Tag.Get("json"), strings.ToLower(field.Name)), ",")
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		if name == "-" || name == "run" || !value.IsValid() {
			continue
		}
		switch v := value.Interface().(type) {
		case nil:
		case time.Duration:
			list = append(list, name, rounded(v.Seconds()))
		case time.Time:
			if !v.IsZero() {
				list = append(list, name, v)
			}
		case examples.Split:
			list = append(list, name, v.String())
		case []int, []string, error:
			list = append(list, name, v)
		default:
			switch kind := value.Kind(); {
			case field.Anonymous:
				list = append(list, attributes(v)...)
			case kind != reflect.Struct && kind != reflect.Map && kind != reflect.Slice:
				list = append(list, name, v)
			}
		}
	}
	return list
}

// rounded returns seconds in whole microseconds: clocks measure no more, and people need not read nine digits.
func rounded(seconds float64) float64 { return math.Round(1e6*seconds) / 1e6 }
