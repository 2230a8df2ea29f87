package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

const (
	// maxNameLength is below the 249 characters that Kafka allows for a topic, as topics add a suffix to the name.
	maxNameLength = 200
	// maxStages is more than any run needs, and few enough to list in a plan.
	maxStages = 10_000
	// maxAverage is above any number of members that averaging gains from.
	maxAverage = 1000
	// maxKeep is above any number of versions that users compare.
	maxKeep = 100_000
	// maxGiveUp is a year.
	maxGiveUp = 365 * 24 * time.Hour
)

// problems returns the impossible values, each by its full key.
func (c *Config) problems() option.Problems {
	var all option.Problems
	wrong, under := all.Add, all.Under
	switch {
	case c.Name == "":
		wrong("name", option.Shown(c.Name), "a prefix for the topic names, as in name: mnist")
	case !option.Topic().Holds(c.Name) || len(c.Name) > maxNameLength || c.Name == "." || c.Name == "..":
		wrong("name", c.Name, fmt.Sprintf("at most %d letters, digits, dots, hyphens and underscores, but not . or ..", maxNameLength))
	}
	var badBrokers []string
	for _, broker := range c.Brokers {
		if !isBrokerAddress(broker) {
			badBrokers = append(badBrokers, quoted(broker))
		}
	}
	if len(badBrokers) > 0 {
		wrong("brokers", c.Brokers, "host:port for each broker, unlike "+english.WordSeries(badBrokers, "and"))
	}
	if len(c.Brokers) == 0 && (c.Security.TLS.Enabled || c.Security.SASL.Mechanism != "") {
		wrong("security", "set without brokers", "brokers too, because the embedded broker has no security")
	} else {
		under("", c.Security.Check())
	}
	switch {
	case c.Listen == "", slices.Equal(c.Brokers, []string{c.Listen}): // another process has the embedded broker
	case len(c.Brokers) > 0:
		wrong("listen", c.Listen, "no value, because brokers is set: only the embedded broker listens")
	case !isBrokerAddress(c.Listen) || !kafkalog.IsLoopback(c.Listen):
		wrong("listen", c.Listen, "a loopback address with a port, such as 127.0.0.1:9092, because the embedded broker has no authentication")
	}
	ofStage := func(k option.Key) bool { return strings.HasPrefix(k.Name, "stages.") } // which are checked one by one
	under("", option.Check(slices.DeleteFunc(ownKeys(), ofStage), *c, *Defaults()))
	under("examples", c.Examples.Check())
	switch topic := c.Examples.Topic; {
	case topic == "":
	case topic == protocol.TopicsOf(c.Name).Examples:
		wrong("examples.topic", topic, "the topic of another pipeline: the pipeline reads its own topic without this key")
	case c.owns(topic):
		wrong("examples.topic", topic, "a topic with examples: this one is another topic of the pipeline")
	}
	under("prepare", stages.CheckPrepare(c.Prepare.Prepare))
	under("prepare", c.Prepare.Hash.Check(c.Examples.Categorical))
	sparse := c.Examples.Text != "" || c.Prepare.Hash.Columns > 0
	dense := func(prefix string, err error) {
		if needs, ok := errors.AsType[*stages.DenseError](err); sparse && ok {
			key, value, _ := strings.Cut(needs.What, ": ")
			wrong(prefix+key, value, strings.TrimPrefix(needs.Want, "it to ")+", because rows with examples.text or prepare.hash are "+
				"sparse")
		}
	}
	dense("", stages.CheckRows(c.Prepare.Prepare, sparse))
	total := 0
	for i, s := range c.Stages {
		key := fmt.Sprintf("stages.%d", i)
		under(key+".features", stages.Check(s.Features))
		under(key, stages.CheckStage(s.Stage, c.Prepare.Prepare, c.Examples.Task()))
		dense(key+".", stages.CheckSparse(s.Features, s.Scores))
		under(key, solve.Check(s.Stage))
		under(key, model.CheckTemperature(s.Stage))
		under(key, model.CheckLink(c.Examples.Task(), s.Link)) // of a link that there is: Check has the problem of another
		if s.Repeat < 1 || s.Repeat > maxStages {
			wrong(key+".repeat", s.Repeat, fmt.Sprintf("a whole number from 1 to %d", maxStages))
			continue
		}
		if total += s.Repeat; total > maxStages && total-s.Repeat <= maxStages {
			wrong(key+".repeat", s.Repeat, fmt.Sprintf("at most %d stages in all", maxStages))
		}
	}
	c.checkThreshold(wrong)
	if topic := c.Serve.Answers.Topic; c.owns(topic) || topic == protocol.TopicsOf(c.Name).Predictions {
		wrong("serve.answers.topic", topic, "another topic: the pipeline uses this one for something else")
	}
	drawn := func(s Stage) bool { return stages.Drawn(s.Features) }
	switch {
	case c.Average > 1 && total*c.Average > maxStages:
		wrong("average", c.Average, fmt.Sprintf("at most %d stages in all, and a member has %d", maxStages, total))
	case c.Average > 1 && total > 0 && !slices.ContainsFunc(c.Stages, drawn):
		wrong("average", c.Average, "1, because no stage has random features: all members would be the same")
	}
	under("topics", option.Check(topics.TopicKeys(), c.Topics, Defaults().Topics))
	under("retrain", option.Check(topics.RetrainKeys(), c.Retrain, Defaults().Retrain))
	under("serve", c.Serve.Check())
	return all
}

// checkThreshold reports a threshold without two classes to decide between, or without rows to choose it by.
func (c *Config) checkThreshold(wrong func(key string, value any, want string)) {
	const key = "threshold"
	switch n := len(c.Examples.Classes); {
	case c.Threshold.IsZero():
	case c.Examples.Task() == examples.Numbers:
		wrong(key, c.Threshold, "no value, because numbers are predicted (examples.targets)")
	case c.Examples.Task() == examples.SeveralLabels:
		wrong(key, c.Threshold, "no value, because rows have several labels (examples.labels), whose thresholds are chosen for each metric")
	case n > 0 && n != 2:
		wrong(key, c.Threshold, fmt.Sprintf("no value, because there are %d classes (examples.classes): a threshold decides between two", n))
	case c.Threshold.Chosen() && c.Examples.Holdout == 0 && len(c.Examples.Train) > 0:
		wrong(key, c.Threshold, "a number, or a part of the rows to choose it by, such as examples.holdout: 0.1")
	}
}

// owns reports whether a topic belongs to the pipeline.
func (c *Config) owns(topic string) bool {
	return slices.ContainsFunc(topics.Topics(c.Job()), func(own kafkalog.Topic) bool { return own.Name == topic })
}

// isListenAddress accepts an empty host, which is every address of the machine, and port 0, which is any free port.
func isListenAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	_, wrong := strconv.ParseUint(port, 10, 16)
	return err == nil && wrong == nil
}

// isBrokerAddress requires a host and a port from 1.
func isBrokerAddress(broker string) bool {
	host, port, _ := net.SplitHostPort(broker)
	n, err := strconv.ParseUint(port, 10, 16)
	return host != "" && !strings.ContainsAny(host, " /") && err == nil && n > 0
}

// CheckChained returns the problems of the stages for a chain of versions.
func (c *Config) CheckChained() option.Problems {
	entries := make([]schemas.Stage, len(c.Stages))
	for i, s := range c.Stages {
		entries[i] = s.Stage
	}
	return solve.CheckChained(entries)
}

// Error lists all problems of a configuration, at least one. The problems of the file come first, in the order of their
// lines.
type Error struct{ Problems []Problem }

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Problem is an invalid part of a configuration, and where it was set. Its Key is the full key, as in
// stages.0.features.size, or YAML if the file as a whole cannot be read.
type Problem struct {
	option.Problem
	// Source is the path of the file, the name of an environment variable, "environment" for a variable that is not a
	// key, or --set.
	Source string
	// Line is the line in the file, from 1; 0 for other sources, and for keys that are not set.
	Line int
}

// Error returns `source:line: key: value: expected what`, without the line if it is 0.
func (p Problem) Error() string {
	source := p.Source
	if p.Line > 0 {
		source = fmt.Sprintf("%s:%d", source, p.Line)
	}
	return source + ": " + p.Problem.Error()
}
