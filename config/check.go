package config

import (
	"fmt"
	"net"
	"regexp"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// Values of OnBadMessage.
const (
	onBadQuarantine = "quarantine"
	onBadStop       = "stop"
)

const (
	// longestName leaves room for the longest suffix of a topic: Kafka allows 249 letters.
	longestName = 200
	// mostStages is more than any run is worth, and few enough to list in a plan.
	mostStages = 10_000
)

// Kafka's own rule for the names of topics.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// notSaid is the value of a key that is required and absent.
const notSaid = "not set"

// problems are the values that can't be, by full key.
func (c *Config) problems() []schemas.Problem {
	var all []schemas.Problem
	wrong := func(key string, value any, want string) {
		all = append(all, schemas.Problem{Key: key, Value: quoted(fmt.Sprint(value)), Want: want})
	}
	under := func(prefix string, problems []schemas.Problem) {
		for _, p := range problems {
			all = append(all, schemas.Problem{Key: join(prefix, p.Key), Value: quoted(p.Value), Want: p.Want})
		}
	}

	switch {
	case c.Name == "":
		wrong("name", notSaid, "the prefix of the topics")
	case !topicName.MatchString(c.Name) || len(c.Name) > longestName || c.Name == "." || c.Name == "..":
		wrong("name", c.Name, fmt.Sprintf("at most %d letters, digits, dots, hyphens and underscores", longestName))
	}
	for _, broker := range c.Brokers {
		if !isAddress(broker) {
			wrong("brokers", broker, "host:port of each")
		}
	}
	if len(c.Brokers) == 0 && (c.Security.TLS.Enabled || c.Security.SASL.Mechanism != "") {
		wrong("brokers", notSaid, "the brokers that security is about: the embedded one is inside this process")
	} else {
		for _, p := range c.Security.Check() {
			wrong("security."+p.Key, p.Value, p.Want)
		}
	}
	if c.DataDir == "" {
		wrong("data_dir", c.DataDir, "a directory")
	}
	under("examples", c.Examples.Check())
	under("prepare", stages.CheckPrepare(c.Prepare))
	total := 0
	for i, s := range c.Stages {
		key := fmt.Sprintf("stages.%d", i)
		under(key+".features", stages.Check(s.Features))
		under(key, solve.Check(s.Stage))
		if s.Repeat < 1 || s.Repeat > mostStages {
			wrong(key+".repeat", s.Repeat, fmt.Sprintf("a whole number from 1 to %d", mostStages))
			continue
		}
		if total += s.Repeat; total > mostStages && total-s.Repeat <= mostStages {
			wrong(key+".repeat", s.Repeat, fmt.Sprintf("at most %d stages in all", mostStages))
		}
	}
	if c.OnBadMessage != onBadQuarantine && c.OnBadMessage != onBadStop {
		wrong("on_bad_message", c.OnBadMessage, onBadQuarantine+" or "+onBadStop)
	}
	if c.Segment < 1 {
		wrong("segment", c.Segment, "a whole number of at least 1")
	}
	if n, err := strconv.ParseUint(c.Warm, 10, 31); c.Warm != "" && c.Warm != "latest" && (err != nil || n == 0) {
		wrong("warm", c.Warm, "latest, or the number of a version")
	}
	if l := c.Metrics.Listen; l != "" && !canListen(l) {
		wrong("metrics.listen", l, "host:port to listen on, or nothing")
	}
	return all
}

// canListen takes an empty host, which is every one that the machine has, and port 0, which is any that is free.
func canListen(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// CheckStages is an *[Error] if there is nothing to train.
func (c *Config) CheckStages() error {
	if len(c.Stages) > 0 {
		return nil
	}
	return &Error{[]Problem{{Problem: schemas.Problem{Key: "stages", Value: notSaid, Want: "a list of at least one stage"}, Source: c.path}}}
}

func isAddress(broker string) bool {
	host, port, err := net.SplitHostPort(broker)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
