// Package typed reads values whose schema is in a file or in a schema registry: in Avro and in Protobuf.
//
// A registry has the API of Confluent's Schema Registry. A schema with an ID never changes, so each is fetched once.
package typed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/value"
)

// Client fetches schemas. It is not safe for concurrent use. Create it with Open.
type Client struct {
	url     string
	client  *sr.Client
	fetched map[format.SchemaID]*fetched
}

// fetched is a schema, or the error for one that the registry did not have.
type fetched struct {
	schema *format.Schema
	err    error
	asks   int // number of messages that have requested an absent one
}

// askAgain is the number of messages with an unknown ID after which the registry is asked again, since it may have been
// restored.
const askAgain = 1000

// timeout is the timeout of a request.
const timeout = 10 * time.Second

// maxReferences is the maximum number of references of a schema.
const maxReferences = 1000

// Open returns a client for options that pass Check. It reads their files, and sends no requests.
func Open(o Registry) (*Client, error) {
	options := []sr.ClientOpt{sr.URLs(o.URL), sr.UserAgent("stagewise")}
	if o.User != "" {
		password, err := o.password()
		if err != nil {
			return nil, err
		}
		options = append(options, sr.BasicAuth(o.User, password))
	}
	if strings.HasPrefix(o.URL, "https:") {
		config, err := o.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, sr.DialTLSConfig(config))
	}
	client, err := sr.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("examples.registry.url: %w", err)
	}
	return &Client{url: o.URL, client: client, fetched: map[format.SchemaID]*fetched{}}, nil
}

// Schema returns the schema with an ID, with its references. Unless it is a *format.RegistryError, an error is due to the ID.
func (c *Client) Schema(ctx context.Context, id format.SchemaID) (*format.Schema, error) {
	if f := c.fetched[id]; f != nil {
		if f.asks++; f.err == nil || f.asks < askAgain {
			return f.schema, f.err
		}
	}
	s, err := c.fetch(ctx, id)
	if err == nil || !errors.As(err, new(*format.RegistryError)) && ctx.Err() == nil {
		c.fetched[id] = &fetched{schema: s, err: err}
	}
	return s, err
}

func (c *Client) fetch(ctx context.Context, id format.SchemaID) (*format.Schema, error) {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var schema sr.Schema
	var err error
	if id.GUID != "" {
		var subject sr.SubjectSchema
		subject, err = c.client.SchemaByGUID(within, id.GUID)
		schema = subject.Schema
	} else {
		schema, err = c.client.SchemaByID(within, id.Number)
	}
	if err != nil {
		return nil, c.explain(ctx, fmt.Sprintf("the schema %s", id), err)
	}
	s := &format.Schema{Name: fmt.Sprintf("schema %s of %s", id, c.url), Type: schema.Type.String(), Text: schema.Schema}
	s.References, err = c.references(ctx, schema.References, nil, map[string]bool{})
	return s, err
}

// references returns the references of a schema, each after its own references. below are the schemas that reference it.
func (c *Client) references(ctx context.Context, needed []sr.SchemaReference, below []string, done map[string]bool) (
	all []format.Reference, err error) {
	for _, r := range needed {
		what := fmt.Sprintf("%s (version %d of %s)", value.Quote(r.Name), r.Version, value.Quote(r.Subject))
		switch {
		case slices.Contains(below, what):
			return nil, fmt.Errorf("the schema refers to %s, which refers to itself", what)
		case done[what]:
			continue
		case len(done) >= maxReferences:
			return nil, fmt.Errorf("the schema references more than %d others", maxReferences)
		}
		done[what] = true
		within, cancel := context.WithTimeout(ctx, timeout)
		subject, err := c.client.SchemaByVersion(within, r.Subject, r.Version)
		cancel()
		if err != nil {
			return nil, c.explain(ctx, "the schema "+what, err)
		}
		more, err := c.references(ctx, subject.References, append(slices.Clone(below), what), done)
		if err != nil {
			return nil, err
		}
		all = append(append(all, more...), format.Reference{Name: r.Name, Text: subject.Schema.Schema})
	}
	return all, nil
}

// Indexes decodes the index path of a message type in its schema, which Protobuf's serializers write after the ID, and
// returns the bytes after it.
func Indexes(content []byte) (indexes []int, rest []byte, err error) {
	switch indexes, rest, err = new(sr.ConfluentHeader).DecodeIndex(content, len(content)); {
	case err == sr.ErrNotRegistered: // more than the bytes
		err = errors.New("the list of message indexes after the schema ID is truncated")
	case err != nil:
		err = errors.New("no list of message indexes after the schema ID: was it written by a Protobuf serializer?")
	}
	return indexes, rest, err
}

// explain adds advice to an error of the registry.
func (c *Client) explain(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	answer, answered := errors.AsType[*sr.ResponseError](err)
	if !answered {
		failed := &format.RegistryError{Err: fmt.Errorf("get %s of %s: %w", what, c.url, err), Away: true}
		if errors.As(err, new(*tls.CertificateVerificationError)) {
			failed = &format.RegistryError{Err: fmt.Errorf("%w: examples.registry.ca must be a file with its CA certificate", failed.Err)}
		}
		return failed
	}
	code, advice := answer.StatusCode, ""
	switch {
	case code == http.StatusNotFound && answer.ErrorCode/100 == http.StatusNotFound:
		return fmt.Errorf("%s is unknown to %s: is examples.registry.url the registry of the producer?", what, c.url)
	case code == http.StatusNotFound:
		advice = " without an error code of a schema registry: set examples.registry.url to the URL of a schema registry"
	case code == http.StatusUnauthorized:
		advice = ": examples.registry.user and examples.registry.password_file must be a user that may read schemas"
	case code == http.StatusForbidden:
		advice = ": the user of examples.registry.user may not read it"
	}
	away := code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout
	return &format.RegistryError{Err: fmt.Errorf("get %s: %s answers %d%s: %w", what, c.url, code, advice, err), Away: away}
}

// Registry are the keys under `examples.registry` of the configuration: [RegistryKeys] says what each means. The zero value means no
// registry.
type Registry struct {
	URL          string `yaml:"url"`
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file" path:"file"`
	CA           string `yaml:"ca" path:"file"`
	Cert         string `yaml:"cert" path:"file"`
	Key          string `yaml:"key" path:"file"`
}

// RegistryKeys returns the keys of a registry below a key under `examples`. meaning describes the URL, which requires the key needs; why
// is the reason.
func RegistryKeys(under, meaning, needs, why string) []option.Key {
	of := func(name string) string { return under + "." + name }
	beside := func(other, want string) map[string]string {
		return map[string]string{of("url"): "examples." + of("url") + " with it", of(other): want + "examples." + of(other) + ", or neither"}
	}
	isURL := option.Rule{Want: "the address of a schema registry, such as https://registry:8081, without a user: examples.registry.user and " +
		"examples.registry.password_file are for those", Holds: func(v any) bool {
		u, err := url.Parse(v.(string))
		return v == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
	}}
	url := map[string]string{of("url"): "examples." + of("url") + " with it"}
	keys := []option.Key{
		{Name: of("url"), Rule: isURL, Needs: map[string]string{needs: why}, Meaning: meaning},
		{Name: of("user"), Needs: beside("password_file", "a user and "), Meaning: "user name at the registry; none: no authentication"},
		{Name: of("password_file"), Needs: beside("user", "a password and "),
			Meaning: "file whose first line is the password of `registry.user`"},
		{Name: of("ca"), Needs: url,
			Meaning: "PEM file with the CA certificates that sign the registry's certificate; none: the CAs of the system"},
		{Name: of("cert"), Needs: beside("key", "a certificate and "),
			Meaning: "PEM file with the client certificate, for registries that require one"},
		{Name: of("key"), Needs: beside("cert", "a key and "), Meaning: "PEM file with the private key of `registry.cert`"},
	}
	for i := range keys[1:] {
		if k := &keys[i+1]; under != "registry" {
			k.Meaning = "as `registry" + strings.TrimPrefix(k.Name, under) + "`"
		}
	}
	return keys
}

// password reads the password.
func (o Registry) password() (string, error) {
	content, err := os.ReadFile(o.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("examples.registry.password_file: %w", err)
	}
	password, _, _ := strings.Cut(string(content), "\n")
	if password = strings.TrimSuffix(password, "\r"); password == "" {
		return "", fmt.Errorf("examples.registry.password_file: %s: expected the password in the first line", o.PasswordFile)
	}
	return password, nil
}

// tls reads the certificates.
func (o Registry) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		content, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("examples.registry.ca: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, errors.New("examples.registry.ca: expected a PEM file with a certificate")
		}
	}
	if o.Cert != "" {
		own, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("examples.registry.cert: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
