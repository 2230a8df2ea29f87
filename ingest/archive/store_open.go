package archive

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
)

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

const anyRegion = "auto" // takes the place of the region in signatures for Google

// openStore returns the store of the files that match a pattern. * and ? match within a name, [ab] matches one of the characters, and **
// matches any number of directories or, at the end, all files. The path of a directory matches all files in it. A hidden name matches only
// if the name in the pattern starts with the same character.
//
// A pattern that begins with s3:// or gs:// and a bucket matches files in the bucket; https:// names a single file. openStore reads the
// access key, and sends no requests.
func openStore(pattern string, o Options) (store, error) {
	scheme, rest, is := strings.Cut(pattern, "://")
	if !is {
		return store{local{}}, nil
	}
	r := &remote{endpoint: o.Endpoint, wait: pause, now: time.Now, region: o.Region}
	r.client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), CheckRedirect: r.followRedirects}
	if o.Endpoint != "" {
		if err := checkURL(o.Endpoint); err != nil {
			return store{}, fmt.Errorf("examples.archive.endpoint: %w", err)
		}
	}
	host, _, _ := strings.Cut(rest, "/")
	switch {
	case host == "" || input.IsPattern(host) || strings.Contains(host, "@"):
		return store{}, fmt.Errorf("%s://…: expected the name of a bucket or server without *, ?, [ and a user", scheme)
	case scheme == "s3":
		r.region = cmp.Or(r.region, "us-east-1")
	case scheme == "gs":
		r.region = cmp.Or(r.region, anyRegion)
	case scheme != "https" && scheme != "http":
		return store{}, input.WholeFile(pattern, errors.New("expected a path, or a URL with s3://, gs:// or https://"))
	case input.IsPattern(pattern):
		return store{}, fmt.Errorf("%s://%s: a web server does not list files: expected the URL of one file without *, ?, [ and a query",
			scheme, host)
	default:
		r.origin = scheme + "://" + host
		if err := checkURL(pattern); err != nil {
			return store{}, fmt.Errorf("%s: %w", r.origin, err)
		}
	}
	switch {
	case o.AccessKeyFile != "" && len(o.TokenCommand) > 0:
		return store{}, errors.New("examples.archive.token_command: no value here, because examples.archive.access_key_file is set")
	case o.AccessKeyFile != "":
		key, err := readKey(o.AccessKeyFile)
		if err != nil {
			return store{}, fmt.Errorf("examples.archive.access_key_file: %w", err)
		}
		r.login = func(context.Context) (secure.Credentials, error) { return key, nil }
	case len(o.TokenCommand) > 0:
		command, err := secure.Command("examples.archive.token_command", o.TokenCommand)
		if err != nil {
			return store{}, fmt.Errorf("examples.archive.token_command: %w", err)
		}
		r.login = command
	}
	return store{r}, nil
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
