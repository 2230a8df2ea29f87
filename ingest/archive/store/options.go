package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
	"github.com/stagewise/stagewise/internal/option"
)

// Options are the keys under `examples.archive` that say how files in a bucket or on a web server are read. The zero value means without a
// login.
type Options struct {
	// Endpoint is the URL of a service that is compatible with S3; "": that of Amazon or Google.
	Endpoint string `yaml:"endpoint"`
	// Region is the region of the bucket; "": it is found.
	Region string `yaml:"region"`
	// AccessKeyFile is a file with the ID of an access key, its secret, and a session token if it has one, each in a line.
	AccessKeyFile string `yaml:"access_key_file" path:"file"`
	// TokenCommand is a program and its arguments. It prints a token, or an access key that expires.
	TokenCommand []string `yaml:"token_command"`
}

// Keys is the table of the keys of Options below a key under `examples`. files is the key of the files.
func Keys(under, files string) []option.Key {
	needs := map[string]string{files: "examples." + files + " with it"}
	return []option.Key{
		{Name: under + ".endpoint", Needs: needs, Rule: option.Rule{
			Want:  "the https URL of a service without a user; http is for loopback addresses",
			Holds: func(v any) bool { return v == "" || checkURL(v.(string)) == nil }},
			Meaning: "URL of a service that is compatible with S3; none: that of Amazon (`s3://`) or Google (`gs://`)"},
		{Name: under + ".region", Needs: needs, Meaning: "region of the bucket; none: it is found"},
		{Name: under + ".access_key_file", Needs: needs, Meaning: "file with an access key of S3, or an HMAC key of Google: its ID, its " +
			"secret, and a session token if there is one, each in a line"},
		{Name: under + ".token_command", Needs: needs, Meaning: "program and arguments that print an access key as `credential_process` of " +
			"AWS does, or a token as for `security.sasl.token_command`"},
	}
}

// checkURL returns an error if examples and credentials can't be sent to a URL.
func checkURL(text string) error {
	switch u, err := url.Parse(text); {
	case err != nil || u.Host == "":
		return errors.New("not a valid URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("expected a URL without a user and a query: examples.archive.access_key_file and examples.archive.token_command " +
			"log in")
	case !isSecure(u):
		return errors.New("expected https; http is for loopback addresses")
	}
	return nil
}

// anyRegion is what Google signs with instead of a region.
const anyRegion = "auto"

// Open returns the store of the files that match a pattern. In it, * and ? match within a name, [ab] one of some characters, and ** any
// number of directories, or all files at the end. A path of a directory stands for all files in it. A hidden name needs a pattern that
// begins like it.
//
// A pattern that begins with s3:// or gs:// and a bucket is for the files in it, https:// for one file. Open reads the access key, and
// sends no requests.
func Open(pattern string, o Options) (Store, error) {
	scheme, rest, is := strings.Cut(pattern, "://")
	if !is {
		return Store{local{}}, nil
	}
	r := &remote{endpoint: o.Endpoint, wait: pause, now: time.Now, region: o.Region}
	r.client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), CheckRedirect: r.followRedirects}
	if o.Endpoint != "" {
		if err := checkURL(o.Endpoint); err != nil {
			return Store{}, fmt.Errorf("examples.archive.endpoint: %w", err)
		}
	}
	host, _, _ := strings.Cut(rest, "/")
	switch {
	case host == "" || input.IsPattern(host) || strings.Contains(host, "@"):
		return Store{}, fmt.Errorf("%s://…: expected the name of a bucket or server without *, ?, [ and a user", scheme)
	case scheme == "s3":
		r.region = cmp.Or(r.region, "us-east-1")
	case scheme == "gs":
		r.region = cmp.Or(r.region, anyRegion)
	case scheme != "https" && scheme != "http":
		return Store{}, input.WholeFile(pattern, errors.New("expected a path, or a URL with s3://, gs:// or https://"))
	case input.IsPattern(pattern):
		return Store{}, fmt.Errorf("%s://%s: a web server does not list files: expected the URL of one file without *, ?, [ and a query",
			scheme, host)
	default:
		r.origin = scheme + "://" + host
		if err := checkURL(pattern); err != nil {
			return Store{}, fmt.Errorf("%s: %w", r.origin, err)
		}
	}
	switch {
	case o.AccessKeyFile != "" && len(o.TokenCommand) > 0:
		return Store{}, errors.New("examples.archive.token_command: no value here, because examples.archive.access_key_file is set")
	case o.AccessKeyFile != "":
		key, err := readKey(o.AccessKeyFile)
		if err != nil {
			return Store{}, fmt.Errorf("examples.archive.access_key_file: %w", err)
		}
		r.login = func(context.Context) (secure.Credentials, error) { return key, nil }
	case len(o.TokenCommand) > 0:
		command, err := secure.Command("examples.archive.token_command", o.TokenCommand)
		if err != nil {
			return Store{}, fmt.Errorf("examples.archive.token_command: %w", err)
		}
		r.login = command
	}
	return Store{r}, nil
}

// readKey reads an access key.
func readKey(file string) (secure.Credentials, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return secure.Credentials{}, err
	}
	lines := strings.Fields(string(content))
	if len(lines) < 2 || len(lines) > 3 {
		return secure.Credentials{}, fmt.Errorf("%s: expected the ID of the key, its secret, and a session token if there is one, each in a "+
			"line", file)
	}
	return secure.Credentials{AccessKey: lines[0], SecretKey: lines[1], Token: strings.Join(lines[2:], "")}, nil
}
