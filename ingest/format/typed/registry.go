// Package typed reads values whose schema is in a file or in a schema registry: in Avro and in Protobuf.
//
// A registry has the API of Confluent's Schema Registry. A schema with an ID never changes, so each is fetched once.
package typed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/stagewise/stagewise/ingest/format"
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
