package secure

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/stagewise/stagewise/internal/assert"
)

// openLogin opens valid options.
func openLogin(t *testing.T, o SASL) login {
	t.Helper()
	l, wrong := o.login()
	assert.Need(t, len(wrong) == 0, "%v", wrong)
	return l
}

// first returns the first message of a login at a broker.
func first(t *testing.T, m sasl.Mechanism) (string, error) {
	t.Helper()
	ctx := sasl.WithMetadata(t.Context(), &sasl.Metadata{Host: "b-1.demo.x1.c2.kafka.eu-central-1.amazonaws.com", Port: 9098})
	_, message, err := m.Start(ctx)
	return string(message), err
}

// A mechanism accepts only its own keys; the error for another one includes the key.
func TestOptions(t *testing.T) {
	dir := t.TempDir()
	token, none := write(t, dir, "token", "abc.def-1\nmore"), filepath.Join(dir, "none")
	words := write(t, dir, "words", "not a token")
	granted := func(change func(*SASL)) SASL {
		o := SASL{Mechanism: OAuthBearer, Username: "train", Password: NewSecret(password), TokenURL: "https://login.example/token"}
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		options SASL
		want    []string // key of each problem, and the start of the expected value
	}{
		"a token endpoint": {granted(func(o *SASL) {
			o.TokenScopes, o.TokenParameters, o.Extensions = []string{"kafka"}, []string{"audience=a=b"}, []string{"logicalCluster=lkc-1", "x="}
		}), nil},
		"a token file": {SASL{Mechanism: OAuthBearer, TokenFile: token}, nil},
		"both": {granted(func(o *SASL) { o.TokenFile = token }), []string{
			"token_file: no value here, because security.sasl.token_url is set"}},
		"neither":              {SASL{Mechanism: OAuthBearer}, []string{"token_url: the URL of a token endpoint"}},
		"no client":            {granted(func(o *SASL) { o.Username, o.Password = "", Secret{} }), []string{"username: the name", "password_file: a file"}},
		"a URL without a host": {granted(func(o *SASL) { o.TokenURL = "login.example/token" }), []string{"token_url: the URL of"}},
		"a password in the URL": {granted(func(o *SASL) { o.TokenURL = "https://a:" + "hunter2@login.example/token" }), []string{
			"token_url: no user and no password in it"}},
		"no such CA":                 {granted(func(o *SASL) { o.TokenCA = none }), []string{"token_ca: a PEM file that can be read: no such file"}},
		"a CA that is none":          {granted(func(o *SASL) { o.TokenCA = words }), []string{"token_ca: a PEM file with a certificate"}},
		"a parameter":                {granted(func(o *SASL) { o.TokenParameters = []string{"audience"} }), []string{"token_parameters: NAME=VALUE"}},
		"the grant as a parameter":   {granted(func(o *SASL) { o.TokenParameters = []string{"grant_type=x"} }), []string{"token_parameters: NAME=VALUE"}},
		"an extension auth":          {granted(func(o *SASL) { o.Extensions = []string{"auth=x"} }), []string{"extensions: NAME=VALUE"}},
		"an extension twice":         {granted(func(o *SASL) { o.Extensions = []string{"a=x", "a=y"} }), []string{"extensions: NAME=VALUE"}},
		"a separator":                {granted(func(o *SASL) { o.Extensions = []string{"a=x\x01auth=y"} }), []string{"extensions: NAME=VALUE"}},
		"no such token file":         {SASL{Mechanism: OAuthBearer, TokenFile: none}, []string{"token_file: a file that can be read: no such file"}},
		"a token file without one":   {SASL{Mechanism: OAuthBearer, TokenFile: words}, []string{"token_file: a file with a token in its first line"}},
		"a token command":            {SASL{Mechanism: OAuthBearer, TokenCommand: []string{"sh", "-c", "exit 1"}}, nil},
		"no such command":            {SASL{Mechanism: OAuthBearer, TokenCommand: []string{none}}, []string{"token_command: a program that can be executed"}},
		"a command that is a file":   {SASL{Mechanism: OAuthBearer, TokenCommand: []string{words}}, []string{"token_command: a program that can be executed"}},
		"a file and a command":       {SASL{Mechanism: OAuthBearer, TokenFile: token, TokenCommand: []string{"sh"}}, []string{"token_command: no value here, because security.sasl.token_file is set"}},
		"PLAIN and a command":        {SASL{Mechanism: Plain, Username: "a", Password: NewSecret(password), TokenCommand: []string{"sh"}}, []string{"token_command: security.sasl.mechanism to be OAUTHBEARER, or no value here"}},
		"a scope and PLAIN":          {SASL{Mechanism: Plain, Username: "a", Password: NewSecret(password), TokenScopes: []string{"x"}}, []string{"token_scopes: security.sasl.mechanism to be OAUTHBEARER"}},
		"a secret by http":           {granted(func(o *SASL) { o.TokenURL = "http://login.example/token" }), []string{"token_url: https, because"}},
		"http on this machine":       {granted(func(o *SASL) { o.TokenURL = "http://[::1]:8080/token" }), nil},
		"PLAIN and a token":          {SASL{Mechanism: Plain, Username: "a", Password: NewSecret(password), TokenFile: token}, []string{"token_file: security.sasl.mechanism to be OAUTHBEARER, or no value here"}},
		"a command and no mechanism": {SASL{TokenCommand: []string{"sh"}}, []string{"token_command: security.sasl.mechanism to be OAUTHBEARER"}},
		"an unknown mechanism":       {SASL{Mechanism: "GSSAPI", TokenFile: "x"}, []string{"mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"}},
		"the mechanism of MSK":       {SASL{Mechanism: "AWS_MSK_IAM"}, []string{"mechanism: OAUTHBEARER with security.sasl.token_command"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := c.options.login()
			assert.Need(t, len(wrong) == len(c.want), "%v, expected %v", wrong, c.want)
			for i, want := range c.want {
				got := wrong[i].Key + ": " + wrong[i].Want
				assert.True(t, strings.HasPrefix(got, want) && !strings.Contains(wrong[i].Value, "hunter2"), "%q, expected %q", got, want)
			}
		})
	}
}

// The documented keys and the keys of mechanisms match.
func TestKeys(t *testing.T) {
	var documented, taken []string
	for _, k := range saslKeys() {
		if k.Name != "mechanism" && k.Name != "password" {
			documented = append(documented, k.Name)
		}
	}
	for _, m := range mechanisms() {
		taken = append(taken, m.keys...)
	}
	slices.Sort(documented)
	slices.Sort(taken)
	taken = slices.Compact(taken)
	assert.Equal(t, taken, documented, "options that are taken, and documented")
}

// endpoint is a token endpoint. Token n is "token-n".
type endpoint struct {
	*httptest.Server
	t *testing.T

	mutex   sync.Mutex
	life    int // lifetime of tokens in seconds; 0: unlimited
	granted int
	refuse  func(w http.ResponseWriter) bool
	form    string // of the last request
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err := r.ParseForm(); err != nil {
		e.t.Error(err)
	}
	e.form = r.PostForm.Encode()
	if e.refuse != nil && e.refuse(w) {
		return
	}
	e.granted++
	answer := map[string]any{"access_token": fmt.Sprint("token-", e.granted), "token_type": "Bearer"}
	if e.life > 0 {
		answer["expires_in"] = e.life
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		e.t.Error(err)
	}
}

func (e *endpoint) with(change func()) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	change()
}

// newEndpoint starts an endpoint with TLS, and returns client options for it.
func newEndpoint(t *testing.T) (*endpoint, SASL) {
	t.Helper()
	e := &endpoint{t: t}
	e.Server = httptest.NewUnstartedServer(e)
	e.Config.ErrorLog = nil
	e.StartTLS()
	t.Cleanup(e.Close)
	ca := write(t, t.TempDir(), "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw})))
	return e, SASL{Mechanism: OAuthBearer, Username: "train", Password: NewSecret(password), TokenURL: e.URL + "/token", TokenCA: ca}
}

// The first message has the token and the extensions according to RFC 7628, and the request follows RFC 6749.
func TestGrant(t *testing.T) {
	e, o := newEndpoint(t)
	o.TokenScopes, o.TokenParameters = []string{"kafka", "read"}, []string{"audience=https://kafka"}
	o.Extensions = []string{"logicalCluster=lkc-1", "identityPoolId=pool-2"}
	m := openLogin(t, o)
	for range 3 { // a token without expiry is fetched once
		message, err := first(t, m)
		want := "n,,\x01auth=Bearer token-1\x01logicalCluster=lkc-1\x01identityPoolId=pool-2\x01\x01"
		assert.Need(t, message == want && err == nil, "%q, %v", message, err)
	}
	assert.Equal(t, e.form, "audience=https%3A%2F%2Fkafka&grant_type=client_credentials&scope=kafka+read", "the form")
	assert.True(t, !strings.Contains(fmt.Sprintf("%+v %#v", m, m), "hunter2"), "the secret is printed")
}

// grantsOf returns the tokens of an endpoint with a test clock.
func grantsOf(t *testing.T, o SASL) (*renewed, *time.Duration) {
	t.Helper()
	g := o.grants(func(key string, value any, want string) { t.Fatal(key, value, want) })
	after := new(time.Duration)
	g.now = func() time.Time { return time.Now().Add(*after) }
	return g, after
}

// A token is renewed after four fifths of its lifetime. While its endpoint is unavailable it is used until it expires.
func TestRenewal(t *testing.T) {
	e, o := newEndpoint(t)
	e.life = 1000
	g, after := grantsOf(t, o)
	away := func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusServiceUnavailable); return true }
	for _, c := range []struct {
		at   int // seconds
		away bool
		want string // token; "": a temporary error
	}{
		{0, true, ""}, {1, false, "token-1"}, {700, false, "token-1"}, {810, true, "token-1"}, {990, true, "token-1"}, {1010, true, ""},
		{1020, false, "token-2"},
	} {
		*after = time.Duration(c.at) * time.Second
		e.with(func() {
			if e.refuse = nil; c.away {
				e.refuse = away
			}
		})
		token, err := g.token(t.Context())
		passing, _ := errors.AsType[net.Error](err)
		assert.True(t, token == c.want && (err == nil) != (c.want == "") && (passing == nil) == (c.want != ""),
			"after %d s: %q, %v", c.at, token, err)
		assert.True(t, err == nil || strings.Contains(err.Error(), "security.sasl.token_url "+o.TokenURL+": status 503"), "%v", err)
	}
}

// Concurrent logins share a request to the endpoint, and none waits beyond its context.
func TestGrantsAreShared(t *testing.T) {
	e, o := newEndpoint(t)
	m := openLogin(t, o)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			message, err := first(t, m)
			assert.True(t, strings.Contains(message, "token-1\x01"), "%v %v", message, err)
		})
	}
	group.Wait()
	assert.Equal(t, e.granted, 1, "tokens that were granted")
	synctest.Test(t, func(t *testing.T) {
		g := newRenewed(nil)
		g.turn <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.MustFail(g.token(ctx))(t, context.DeadlineExceeded)
	})
}

// A rejection by the endpoint is a permanent error with the key. It includes neither the secret nor a response body.
func TestRefusals(t *testing.T) {
	answer := func(status int, body string) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	e, o := newEndpoint(t)
	untrusted := o
	untrusted.TokenCA = ""
	for name, c := range map[string]struct {
		options SASL
		refuse  func(http.ResponseWriter) bool
		check   string
		text    string
	}{
		"a wrong secret": {o, answer(401, `{"error": "invalid_client", "error_description": "no such client"}`),
			"security.sasl.username and the password: the endpoint refuses client train", "status 401 Unauthorized invalid_client no such client"},
		"a scope":         {o, answer(400, `{"error": "invalid_scope"}`), "security.sasl.token_scopes", "invalid_scope"},
		"no endpoint":     {o, answer(404, `secret body`), "security.sasl.token_url", "status 404"},
		"a redirect":      {o, answer(307, ``), "security.sasl.token_url", "status 307"},
		"a token of more": {o, answer(200, "{\"access_token\": \"a\\u0001auth=b\"}"), "security.sasl.token_url", "no bearer token"},
		"another CA":      {untrusted, nil, "security.sasl.token_ca", "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			e.with(func() { e.refuse = c.refuse })
			_, err := first(t, openLogin(t, c.options))
			refused, ok := errors.AsType[*AccessError](err)
			assert.Need(t, ok && refused.Check == c.check && strings.Contains(err.Error(), c.text) && strings.Contains(err.Error(), o.TokenURL),
				"%v", err)
			assert.True(t, !strings.Contains(err.Error(), "hunter2") && !strings.Contains(err.Error(), "secret body"), "%v", err)
		})
	}
	e.Close()
	assert.MustFail(first(t, openLogin(t, o)))(t, new(passingError), "security.sasl.token_url")
}

// A token file is read at each login, so that a renewed token is used; while it is missing, logins fail temporarily.
func TestTokenFile(t *testing.T) {
	file := write(t, t.TempDir(), "token", "token-1\n")
	m := openLogin(t, SASL{Mechanism: OAuthBearer, TokenFile: file})
	for _, token := range []string{"token-1", "token-2", "", "token-3"} {
		write(t, "", file, token)
		message, err := first(t, m)
		if token == "" {
			assert.Fails(t, err, new(passingError), "security.sasl.token_file: "+file)
		} else if message != "n,,\x01auth=Bearer "+token+"\x01\x01" || err != nil {
			t.Errorf("%q, %v", message, err)
		}
	}
}

// A program prints the token. It runs again after four fifths of the token's lifetime; while it fails, the token is used until it expires,
// and then logins fail temporarily, with what the program says, but never with what it prints.
func TestTokenCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "printed")
	o := SASL{Mechanism: OAuthBearer, TokenCommand: []string{"sh", "-c", `[ "$2" = "it's" ] && cat "$1" && [ ! -e "$1.fails" ] || { echo no role >&2; exit 3; }`,
		"sh", file, "it's"}}
	r := o.command(func(key string, value any, want string) { t.Fatal(key, value, want) })
	began, after := time.Now(), time.Duration(0)
	r.now = func() time.Time { return began.Add(after) }
	printed := func(token string, life time.Duration) string {
		return fmt.Sprintf(`{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": %q, "expirationTimestamp": %q}}`,
			token, began.Add(life).Format(time.RFC3339))
	}
	for _, c := range []struct {
		at      time.Duration
		printed string
		fails   bool
		want    string // the token, or a part of the error
	}{
		{0, printed("secret-1", time.Hour), true, "exit status 3: no role"},
		{0, printed("a b", time.Hour), false, "expected an ExecCredential"},
		{0, "secret-1", false, "expected an ExecCredential"},
		{0, printed("secret-1", -time.Hour), false, "the token expired at"},
		{0, printed("secret-1", time.Hour), false, "secret-1"},
		{40 * time.Minute, printed("secret-2", 2*time.Hour), false, "secret-1"},
		{50 * time.Minute, printed("secret-2", 2*time.Hour), true, "secret-1"},
		{50 * time.Minute, printed("secret-2", 2*time.Hour), false, "secret-2"},
		{3 * time.Hour, printed("secret-3", 4*time.Hour), true, "exit status 3: no role"},
		{3 * time.Hour, `{"status": {"token": "forever=="}}`, false, "forever=="},
		{999 * time.Hour, "", true, "forever=="},
	} {
		after = c.at
		write(t, "", file, c.printed)
		if os.Remove(file + ".fails"); c.fails {
			write(t, "", file+".fails", "")
		}
		token, err := r.token(t.Context())
		assert.True(t, err != nil || token == c.want, "after %v: token %s, expected %s", c.at, token, c.want)
		if err != nil {
			assert.Fails(t, err, c.want, "security.sasl.token_command", new(passingError))
			assert.True(t, !strings.Contains(err.Error(), "secret-"), "after %v: %v, expected %s", c.at, err, c.want)
		}
	}
}

// A program that hangs, or that prints without an end, ends with the login that waits for it.
func TestTokenCommandEnds(t *testing.T) {
	for _, script := range []string{"sleep 100 & sleep 100", "yes", "yes >&2"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := SASL{TokenCommand: []string{"sh", "-c", script}}.command(func(key string, value any, want string) { t.Fatal(key, value, want) })
		_, err := r.token(ctx)
		assert.True(t, errors.As(err, new(passingError)) && len(err.Error()) <= 2<<10, "%s: %v", script, err)
	}
}

const password = `hunter2 "correct', horse`

// writePair writes a self-signed certificate and its key.
func writePair(t *testing.T, dir, name string) (certificate, key string) {
	t.Helper()
	private := assert.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der := assert.Must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	pkcs8 := assert.Must(x509.MarshalPKCS8PrivateKey(private))(t)
	certificate = write(t, dir, name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return certificate, write(t, dir, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
}

func write(t *testing.T, dir, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	assert.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// Check reports every invalid setting with the reason, and never reveals the password. Package config has more of them.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	client, key := writePair(t, dir, "client")
	_, otherKey := writePair(t, dir, "other")
	empty, words, none := write(t, dir, "empty", "\nsecond line\n"), write(t, dir, "words", "certificate"), filepath.Join(dir, "none")
	huge := write(t, dir, "huge", strings.Repeat("x", 2<<20))
	as := func(mechanism, user, password string) SASL {
		return SASL{Mechanism: mechanism, Username: user, Password: NewSecret(password)}
	}
	from := func(file string) SASL { return SASL{Mechanism: Plain, Username: "alice", PasswordFile: file} }
	for name, c := range map[string]struct {
		options Options
		want    []string // start of each error
	}{
		"the zero value":              {Options{}, nil},
		"TLS":                         {Options{TLS: TLS{Enabled: true, CA: client}}, nil},
		"a certificate":               {Options{TLS: TLS{Enabled: true, Certificate: client, Key: key}}, nil},
		"a password and no mechanism": {Options{SASL: SASL{Password: NewSecret(password)}}, nil},
		"a password file":             {Options{SASL: from(write(t, dir, "password", "x\r\n"))}, nil},
		"a folder as the CA": {Options{TLS: TLS{Enabled: true, CA: dir}}, []string{"tls.ca: " + dir +
			": expected a PEM file that can be read: is a directory"}},
		"a CA that is no PEM file": {Options{TLS: TLS{Enabled: true, CA: words}}, []string{"tls.ca: " + words +
			": expected a PEM file with a certificate"}},
		"a huge CA": {Options{TLS: TLS{Enabled: true, CA: huge}}, []string{"tls.ca: " + huge +
			": expected a PEM file that can be read: it is larger than 1 MiB"}},
		"no such certificate": {Options{TLS: TLS{Enabled: true, Certificate: none, Key: key}}, []string{"tls.certificate: " +
			none + ": expected a PEM file that can be read"}},
		"a certificate that is no PEM": {Options{TLS: TLS{Enabled: true, Certificate: words, Key: key}}, []string{"tls.certificate: " +
			words + ": expected a PEM file with a certificate"}},
		"no such key": {Options{TLS: TLS{Enabled: true, Certificate: client, Key: none}}, []string{"tls.key: " + none +
			": expected a PEM file that can be read"}},
		"a key that is no PEM": {Options{TLS: TLS{Enabled: true, Certificate: client, Key: words}}, []string{"tls.key: " +
			words + ": expected the private key"}},
		"the key of another certificate": {Options{TLS: TLS{Enabled: true, Certificate: client, Key: otherKey}}, []string{"tls.key: " +
			otherKey + ": expected the private key, PEM and not encrypted, of " + client}},
		"an empty password file": {Options{SASL: from(empty)}, []string{"sasl.password_file: " + empty +
			": expected a file with the password in its first line"}},
		"a zero byte in PLAIN": {Options{SASL: as(Plain, "alice", password+"\x00")}, []string{"sasl.username: alice: expected no zero byte"}},
		"a character SCRAM prohibits": {Options{SASL: as(ScramSHA512, "alice", password+"\u0007")},
			[]string{"sasl.username: alice: expected a user name and a password of characters"}},
		"a CA and a mechanism at once": {Options{TLS{Enabled: true, CA: none}, SASL{Mechanism: "x", Username: "a",
			Password: NewSecret(password)}}, []string{"tls.ca", "sasl.mechanism"}},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := c.options.Check()
			assert.Need(t, len(wrong) == len(c.want), "%v, expected %v", wrong, c.want)
			for i, want := range c.want {
				got := wrong[i].Error()
				assert.True(t, strings.HasPrefix(got, "security."+want) && !strings.Contains(got, password), "%q, expected %q", got, want)
			}
		})
	}
}
