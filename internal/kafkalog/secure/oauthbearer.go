package secure

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// OAuthBearer is the name of the mechanism.
const OAuthBearer = "OAUTHBEARER"

// oauthBearer authenticates with a token (RFC 7628) from an endpoint, a file or a program.
func oauthBearer() mechanism {
	return mechanism{name: OAuthBearer,
		keys: []string{"username", "password_file", "token_url", "token_ca", "token_scopes", "token_parameters", "token_file", "token_command",
			"extensions"},
		instead: map[string]string{ // as Java clients call it
			"AWS_MSK_IAM": OAuthBearer + " with security.sasl.token_command, which prints a token for MSK"},
		open: func(o SASL, wrong func(key string, value any, want string)) login {
			b := bearer{extensions: o.extensions(wrong)}
			first := "" // the first key that names a source of the token
			from := func(key, value string, open func() tokens) {
				switch {
				case value == "":
					return
				case first != "":
					wrong(key, value, "no value here, because security.sasl."+first+" is set")
				}
				first, b.token = cmp.Or(first, key), open()
			}
			from("token_url", o.TokenURL, func() tokens { return o.grants(wrong).token })
			from("token_file", o.TokenFile, func() tokens { return o.file(wrong) })
			from("token_command", strings.Join(o.TokenCommand, " "), func() tokens { return o.command(wrong).token })
			if first == "" {
				wrong("token_url", "not set", "the URL of a token endpoint, or a token in security.sasl.token_file or by security.sasl.token_command")
			}
			return login{b, "the user in the token"}
		}}
}

// tokens returns the token for a login.
type tokens func(context.Context) (string, error)

// bearer is the mechanism OAUTHBEARER.
type bearer struct {
	token      tokens
	extensions string // encoded, each after a separator
}

// separator separates the parts of the first message.
const separator = "\x01"

func (b bearer) Name() string { return OAuthBearer }

// Start returns the first message. It has no user name: brokers use the one in the token.
func (b bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, nil, err
	}
	return bearerState{}, []byte("n,," + separator + "auth=Bearer " + token + b.extensions + separator + separator), nil
}

type bearerState struct{}

// Next ends a successful login. A broker that rejects a token sends the reason in a challenge, and expects an empty
// response before it ends the login with an error (RFC 7628, section 3.2.3).
func (bearerState) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	return false, []byte(separator), nil
}

// Characters of extensions, from RFC 7628, section 3.1.
var (
	extensionName  = regexp.MustCompile(`^[A-Za-z]+$`)
	extensionValue = regexp.MustCompile(`^[\x21-\x7e \t\r\n]*$`)
)

// extensions returns the encoded extensions.
func (o SASL) extensions(wrong func(key string, value any, want string)) string {
	list, ok := pairs(o.Extensions)
	text, seen := "", map[string]bool{"auth": true} // reserved for the token
	for _, e := range list {
		ok = ok && extensionName.MatchString(e[0]) && extensionValue.MatchString(e[1]) && !seen[e[0]]
		seen[e[0]] = true
		text += separator + e[0] + "=" + e[1]
	}
	if !ok {
		wrong("extensions", strings.Join(o.Extensions, ", "),
			"NAME=VALUE for each extension, of letters and of printable ASCII, each name once, and none auth")
	}
	return text
}

// tokenCharacters matches a bearer token (RFC 6750, section 2.1).
var tokenCharacters = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// file returns the token of a file, which is read again at each login, because the token is renewed by replacing the file.
func (o SASL) file(wrong func(key string, value any, want string)) tokens {
	read := func() (string, error) {
		content, err := load(o.TokenFile)
		if err != nil {
			return "", fmt.Errorf("a file that can be read: %w", err)
		}
		token := strings.TrimSpace(firstLine(content))
		if !tokenCharacters.MatchString(token) {
			return "", fmt.Errorf("a file with a token in its first line")
		}
		return token, nil
	}
	if _, err := read(); err != nil {
		wrong("token_file", o.TokenFile, err.Error())
	}
	return func(context.Context) (string, error) {
		token, err := read()
		if err != nil { // for example while the file is being replaced
			return "", passingError{fmt.Errorf("security.sasl.token_file: %s: expected %w", o.TokenFile, err)}
		}
		return token, nil
	}
}

// grants returns the tokens that the endpoint grants to the client.
func (o SASL) grants(wrong func(key string, value any, want string)) *renewed {
	client, secret := o.user(wrong)
	switch u, err := url.Parse(o.TokenURL); {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "":
		wrong("token_url", o.TokenURL, "the URL of a token endpoint, as in https://login.example/oauth2/token")
	case u.User != nil:
		wrong("token_url", u.Redacted(), "no user and no password in it: set security.sasl.username and security.sasl.password_file")
	case u.Scheme == "http" && !IsLoopback(u.Hostname()):
		wrong("token_url", o.TokenURL, "https, because the secret is sent there; http is for loopback addresses")
	}
	parameters := url.Values{}
	list, ok := pairs(o.TokenParameters)
	for _, p := range list {
		parameters.Add(p[0], p[1])
		ok = ok && p[0] != "grant_type" // set by clientcredentials
	}
	if !ok {
		wrong("token_parameters", strings.Join(o.TokenParameters, ", "), "NAME=VALUE for each parameter, and none of them grant_type")
	}
	// A redirect would send the secret to another address. A token outlives a keep-alive connection.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: &tls.Config{}}
	if o.TokenCA != "" {
		transport.TLSClientConfig.RootCAs = authorities("token_ca", o.TokenCA, wrong)
	}
	g := &grants{
		http: &http.Client{Transport: transport, Timeout: fetchTime, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		secret: NewSecret(secret),
		config: &clientcredentials.Config{ClientID: client, TokenURL: o.TokenURL, Scopes: o.TokenScopes, EndpointParams: parameters},
	}
	return newRenewed(g.fetch)
}

// grants requests tokens at an endpoint.
type grants struct {
	config *clientcredentials.Config // without the secret, so that it can't be printed; it caches the authentication style
	secret Secret
	http   *http.Client
}

// IsLoopback reports whether a host is this machine: localhost, ::1, or an address from 127.0.0.0/8.
func IsLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// fetch requests a token.
func (g *grants) fetch(ctx context.Context) (granted, error) {
	g.config.ClientSecret = g.secret.reveal()
	token, err := g.config.Token(context.WithValue(ctx, oauth2.HTTPClient, g.http))
	g.config.ClientSecret = ""
	what := "fetch a token from security.sasl.token_url " + g.config.TokenURL
	if err == nil && !tokenCharacters.MatchString(token.AccessToken) {
		return granted{}, &AccessError{attempt(what, errors.New("the answer has no bearer token")), "security.sasl.token_url"}
	}
	if err == nil {
		return granted{Credentials{Token: token.AccessToken}, token.Expiry}, nil
	}
	answer, answered := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case answered && answer.Response.StatusCode < http.StatusInternalServerError && answer.Response.StatusCode != http.StatusRequestTimeout &&
		answer.Response.StatusCode != http.StatusTooManyRequests:
		// The body is omitted, because it may contain a token.
		err = fmt.Errorf("status %s %s", answer.Response.Status, strings.TrimSpace(answer.ErrorCode+" "+answer.ErrorDescription))
		check := "security.sasl.token_url"
		if answer.ErrorCode == "invalid_scope" {
			check = "security.sasl.token_scopes"
		} else if answer.ErrorCode != "" || answer.Response.StatusCode == http.StatusUnauthorized {
			check = "security.sasl.username and the password: the endpoint refuses client " + g.config.ClientID
		}
		return granted{}, &AccessError{attempt(what, err), check}
	case answered:
		err = fmt.Errorf("status %s", answer.Response.Status)
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return granted{}, &AccessError{attempt(what, err), "security.sasl.token_ca"}
	}
	return granted{}, passingError{attempt(what, err)}
}

// command returns the tokens that a program prints, as credential plugins of kubectl do:
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#input-and-output-formats.
func (o SASL) command(wrong func(key string, value any, want string)) *renewed {
	program, err := exec.LookPath(o.TokenCommand[0])
	if err != nil {
		wrong("token_command", o.TokenCommand[0], "a program that can be executed, and its arguments: "+err.Error())
	}
	return printed("security.sasl.token_command", program, o.TokenCommand[1:], false)
}

// Credentials authenticate to a service that stores files.
type Credentials struct {
	AccessKey, SecretKey string // for S3; "": only Token is used
	Token                string // a bearer token, or the session token of the access key
}

// Command returns the current credentials that a program prints, as in `security.sasl.token_command`, or as programs for
// `credential_process` of AWS do: https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html. key is the
// configuration key of the command.
func Command(key string, command []string) (func(context.Context) (Credentials, error), error) {
	program, err := exec.LookPath(command[0])
	if err != nil {
		return nil, fmt.Errorf("%s: expected a program that can be executed, and its arguments: %w", command[0], err)
	}
	return printed(key, program, command[1:], true).get, nil
}

// printed returns the credentials that a program prints: a token or, if keys is true, an access key.
func printed(key, program string, arguments []string, keys bool) *renewed {
	return newRenewed(func(ctx context.Context) (printed granted, err error) {
		if printed, err = run(ctx, program, arguments, keys); err != nil { // the program depends on other services, and can be replaced
			err = passingError{attempt("run "+key+" "+program, err)}
		}
		return printed, err
	})
}

// run runs a program that prints a token or, if keys is true, an access key. Its errors include the program's standard error, but not its
// standard output.
func run(ctx context.Context, program string, arguments []string, keys bool) (token granted, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.WaitDelay = time.Second // for the standard output, which a child of the program may keep open
	stdout, stderr := &limited{most: 64 << 10}, &limited{most: 1 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Run()
	switch said := strings.Join(strings.Fields(string(stderr.bytes)), " "); {
	case ctx.Err() != nil:
		return token, fmt.Errorf("no token before the login ended: %w: %s", ctx.Err(), said)
	case err != nil:
		return token, fmt.Errorf("%w: %s", err, said)
	}
	var printed struct {
		Status struct {
			Token  string    `json:"token"`
			Expiry time.Time `json:"expirationTimestamp"`
		} `json:"status"`
		AccessKeyID, SecretAccessKey, SessionToken string
		Expiration                                 time.Time
	}
	err = json.Unmarshal(stdout.bytes, &printed)
	token = granted{Credentials{Token: printed.Status.Token}, printed.Status.Expiry}
	switch {
	case keys && err == nil && printed.AccessKeyID != "" && printed.SecretAccessKey != "":
		token = granted{Credentials{printed.AccessKeyID, printed.SecretAccessKey, printed.SessionToken}, printed.Expiration}
	case err != nil || !tokenCharacters.MatchString(token.Token):
		return token, errors.New(`expected an ExecCredential on standard output: {"kind": "ExecCredential", "status": {"token": "…", ` +
			`"expirationTimestamp": "2006-01-02T15:04:05Z"}}`)
	}
	if !token.expiry.IsZero() && !token.expiry.After(time.Now()) {
		err = fmt.Errorf("the token expired at %s", token.expiry.Format(time.RFC3339))
	}
	return token, err
}

// limited keeps the first bytes that are written to it, and discards the rest.
type limited struct {
	bytes []byte
	most  int
}

func (l *limited) Write(p []byte) (int, error) {
	l.bytes = append(l.bytes, p[:min(len(p), l.most-len(l.bytes))]...)
	return len(p), nil
}

// fetchTime is the time limit for fetching a token. A connection has 5 s for the whole login.
const fetchTime = 4 * time.Second

// granted is the credentials that a program prints or an endpoint grants.
type granted struct {
	Credentials
	expiry time.Time // zero: never
}

// renewed is the credentials that all connections share. They are fetched again before they expire.
type renewed struct {
	fetch func(context.Context) (granted, error)
	now   func() time.Time

	turn    chan struct{} // a lock for the fields below
	current *granted      // nil: nothing was fetched yet
	renew   time.Time     // when current is to be renewed; zero: never
}

func newRenewed(fetch func(context.Context) (granted, error)) *renewed {
	return &renewed{fetch: fetch, now: time.Now, turn: make(chan struct{}, 1)}
}

// token returns the text of the current token.
func (r *renewed) token(ctx context.Context) (string, error) {
	c, err := r.get(ctx)
	return c.Token, err
}

// get returns the current credentials, or fetches new ones after four fifths of their lifetime. During the last fifth, the
// current ones are used if new ones can't be fetched.
func (r *renewed) get(ctx context.Context) (Credentials, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return Credentials{}, ctx.Err()
	}
	began := r.now()
	if r.current != nil && (r.renew.IsZero() || began.Before(r.renew)) {
		return r.current.Credentials, nil
	}
	token, err := r.fetch(ctx)
	switch {
	case err == nil:
		r.current, r.renew = &token, time.Time{}
		if !token.expiry.IsZero() {
			r.renew = began.Add(token.expiry.Sub(began) * 4 / 5)
		}
	case r.current == nil || !r.current.expiry.After(began) || errors.As(err, new(*AccessError)):
		return Credentials{}, err
	}
	return r.current.Credentials, nil
}
