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

// Security configures TLS and SASL. The zero value is plain text without authentication. docs/security.md lists the permissions
// of a follower.
type Security = kafkalog.Security

// Secret is a password. It is never printed.
type Secret = kafkalog.Secret

// NewSecret returns text as a Secret.
func NewSecret(text string) Secret { return kafkalog.NewSecret(text) }

// Options configure a [Follower].
type Options struct {
	// Name is the name of the pipeline: the prefix of its topics.
	Name string
	// Brokers are host:port addresses of a Kafka cluster, or of a listening embedded broker. At least one must answer.
	Brokers []string
	// Security applies to connections to Brokers.
	Security Security
	// DataDir is the directory of an embedded broker, which Follow opens if Brokers is empty. Only one process can open it; other
	// processes use the address that its configuration has as listen.
	DataDir string
	// Version is the number or the run id of the only version to follow. "" and "latest" mean the pinned version, or else the newest
	// offered one.
	Version string
	// MaxSilence is the time without an answer from the brokers after which [Follower.Stale] returns an error; 0 means
	// one minute. The follower sends requests four times as often, and at least every ten seconds.
	MaxSilence time.Duration
	// MaxAge is the age at which a version is stale; 0 means never.
	MaxAge time.Duration
}

// Check returns the first error in the options.
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

// versionName matches version numbers and run ids.
var versionName = regexp.MustCompile(`^([0-9]+|[0-9a-f]{12})$`)

func (o *Options) checkValues() error {
	switch {
	case o.Name == "":
		return option.Problem{Key: "Name", Value: "not set", Want: "the name of a pipeline"}
	case o.version() != protocol.Latest && !versionName.MatchString(o.Version): // no version can match
		return option.Problem{Key: "version", Value: o.Version, Want: "a version number, the id of a run, or " + protocol.Latest}
	case o.MaxSilence < 0:
		return option.Problem{Key: "MaxSilence", Value: o.MaxSilence.String(), Want: "a time of at least 0"}
	case o.MaxAge < 0:
		return option.Problem{Key: "MaxAge", Value: o.MaxAge.String(), Want: "a time of at least 0"}
	}
	return nil
}

func (o *Options) version() string           { return cmp.Or(o.Version, protocol.Latest) }
func (o *Options) silence() time.Duration    { return cmp.Or(o.MaxSilence, time.Minute) }
func (o *Options) checkEvery() time.Duration { return min(o.silence()/4, 10*time.Second) }
