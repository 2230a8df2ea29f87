package client

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// Security is TLS and SASL for the brokers. The zero value is plain text, without a user. docs/security.md says which
// permissions a follower needs.
type Security = kafkalog.Security

// Secret is a password. It is never printed.
type Secret = kafkalog.Secret

// NewSecret returns the Secret that is a text.
func NewSecret(text string) Secret { return kafkalog.NewSecret(text) }

// Options say which versions to follow, and where they are.
type Options struct {
	// Name is the name of the pipeline, the prefix of its topics.
	Name string
	// Brokers are host:port addresses of a Kafka cluster, or of an embedded broker that listens. At least one of them must answer.
	Brokers []string
	// Security is how to reach Brokers.
	Security Security
	// DataDir is the directory of an embedded broker, which is opened if there are no Brokers. One process at a time can have it open, so the
	// others need the address at which that process listens: see the key listen of the configuration.
	DataDir string
	// Version is the version to follow, whatever is made after it: its number, or the id of its run. "" or "latest" is the version that is
	// pinned, or else the newest that is offered.
	Version string
	// MaxSilence is after how long without an answer of the brokers [Follower.Stale] says so; 0: one minute. They are
	// asked four times as often, and at least every ten seconds.
	MaxSilence time.Duration
	// MaxAge is how long after it was written a version is stale, because no other came; 0: never.
	MaxAge time.Duration
}

const (
	defaultSilence = time.Minute
	longestCheck   = 10 * time.Second
)

// Check returns what is wrong with the options; nil: nothing.
func (o *Options) Check() error {
	switch {
	case len(o.Brokers) == 0 && o.DataDir == "":
		return option.Problem{Key: "Brokers", Value: "not set",
			Want: "the addresses of brokers, or the directory of an embedded broker in DataDir"}
	case len(o.Brokers) > 0 && o.DataDir != "":
		return option.Problem{Key: "DataDir", Value: o.DataDir, Want: "no value: Brokers has " + strings.Join(o.Brokers, ", ")}
	}
	return o.checkValues()
}

// versionName is how a version is called: its number, or the id of its run.
var versionName = regexp.MustCompile(`^([0-9]+|[0-9a-f]{12})$`)

func (o *Options) checkValues() error {
	switch {
	case o.Name == "":
		return option.Problem{Key: "Name", Value: "not set", Want: "the name of a pipeline"}
	case o.version() != protocol.Latest && !versionName.MatchString(o.Version): // no version will ever be that
		return option.Problem{Key: "version", Value: o.Version, Want: "a version number, the id of a run, or " + protocol.Latest}
	}
	for key, limit := range map[string]time.Duration{"MaxSilence": o.MaxSilence, "MaxAge": o.MaxAge} {
		if limit < 0 {
			return option.Problem{Key: key, Value: limit.String(), Want: "a time of at least 0"}
		}
	}
	return nil
}

func (o *Options) version() string           { return cmp.Or(o.Version, protocol.Latest) }
func (o *Options) silence() time.Duration    { return cmp.Or(o.MaxSilence, defaultSilence) }
func (o *Options) checkEvery() time.Duration { return min(o.silence()/4, longestCheck) }
