package archive

import (
	"time"

	"github.com/stagewise/stagewise/internal/option"
)

// Options are the keys under `examples.archive` of the configuration: [Keys] says what each means. The zero value means no archive.
type Options struct {
	Files         string   `yaml:"files" path:"file"`
	Layout        string   `yaml:"layout"`
	Partition     string   `yaml:"partition"`
	Offset        string   `yaml:"offset"`
	Timestamp     string   `yaml:"timestamp"`
	Key           string   `yaml:"key"`
	Snapshot      string   `yaml:"snapshot"`
	AsOf          string   `yaml:"as_of"`
	Endpoint      string   `yaml:"endpoint"`
	Region        string   `yaml:"region"`
	AccessKeyFile string   `yaml:"access_key_file" path:"file"`
	TokenCommand  []string `yaml:"token_command"`
	OnGap         string   `yaml:"on_gap"`
	Alone         bool     `yaml:"-"` // there is no topic: the archive has all messages
}

const (
	GapStop     = "stop"     // Options.OnGap: return an error
	GapContinue = "continue" // Options.OnGap: count them as lost
)

// Defaults returns the options of an empty configuration.
func Defaults() Options { return Options{OnGap: GapStop} }

// Keys is the table of the keys under `examples.archive`.
func Keys() []option.Key {
	files := map[string]string{"archive.files": "examples.archive.files with it"}
	column := func(name, meaning string) option.Key {
		return option.Key{Name: name, Needs: files, Meaning: "column of a row with " + meaning}
	}
	keys := []option.Key{
		{Name: "files", Meaning: "files with earlier messages of `from_topic`, such as `topics/clicks/**`; without `from_topic`, the archive " +
			"is all there is: see [archives](archives.md); none: no archive"},
		{Name: "layout", Needs: files, Rule: option.OneOf(append(names(), "")...), Meaning: "where files and rows have partition and offset: " +
			layoutMeanings() + "; none: by the names of the files"},
		column("partition", "the partition; none: as `layout` says"),
		column("offset", "the offset; none: as `layout` says"),
		column("timestamp", "the time of the message; none: as `layout` says"),
		column("key", "the key of the message; none: as `layout` says"),
		{Name: "snapshot", Needs: files, Meaning: "ID, tag or branch of Iceberg, or version of Delta Lake, of the state of the table that is " +
			"read; none: the current one"},
		{Name: "as_of", Needs: files, Excludes: map[string]string{"archive.snapshot": "no time with examples.archive.snapshot"},
			Rule: option.Rule{Want: "a time, as 2026-11-01T00:00:00Z", Holds: func(v any) bool {
				_, err := time.Parse(time.RFC3339, v.(string))
				return v == "" || err == nil
			}}, Meaning: "time at which the state of the table was the current one; none: the current one"},
		{Name: "on_gap", Rule: option.OneOf(GapStop, GapContinue), When: "archive.files",
			Meaning: "if messages are missing: `stop` with an error, or `continue` and count them as lost"},
		{Name: "endpoint", Needs: files, Rule: option.Rule{
			Want:  "the https URL of a service without a user; http is for loopback addresses",
			Holds: func(v any) bool { return v == "" || checkURL(v.(string)) == nil }},
			Meaning: "URL of a service that is compatible with S3; none: that of Amazon (`s3://`) or Google (`gs://`)"},
		{Name: "region", Needs: files, Meaning: "region of the bucket; none: it is found"},
		{Name: "access_key_file", Needs: files, Meaning: "file with an access key of S3, or an HMAC key of Google: its ID, its " +
			"secret, and a session token if there is one, each in a line"},
		{Name: "token_command", Needs: files, Meaning: "program and arguments that print an access key as `credential_process` of " +
			"AWS does, or a token as for `security.sasl.token_command`"},
	}
	return option.Under("archive", keys)
}
