package kafkalog

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
	"github.com/stagewise/stagewise/internal/option"
)

// authority is a test CA. dir has its certificate and all issued ones.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.certificate, a.key = a.issue(t, "ca", true)
	return a
}

// issue writes a certificate and its key, name.pem and name.key.
func (a *authority) issue(t *testing.T, name string, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := assert.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name}, IsCA: isCA, BasicConstraintsValid: true,
	}
	parent, signer := template, key
	if a.certificate != nil {
		parent, signer = a.certificate, a.key
	}
	der := assert.Must(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer))(t)
	private := assert.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	assert.NoError(t, os.WriteFile(a.file(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	assert.NoError(t, os.WriteFile(a.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return assert.Must(x509.ParseCertificate(der))(t), key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// broker returns the TLS configuration of a broker with a certificate of this authority, which also verifies clients.
func (a *authority) broker(t *testing.T, clients tls.ClientAuthType) *tls.Config {
	t.Helper()
	a.issue(t, "broker", false)
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{
		Certificates: []tls.Certificate{assert.Must(tls.LoadX509KeyPair(a.file("broker.pem"), a.file("broker.key")))(t)},
		ClientAuth:   clients, ClientCAs: pool,
	}
}

// trusting returns the settings of a client that trusts this authority.
func (a *authority) trusting() secure.TLS { return secure.TLS{Enabled: true, CA: a.file("ca.pem")} }

const (
	mechanismPlain    = "PLAIN"
	mechanismScram256 = "SCRAM-SHA-256"
	mechanismScram512 = "SCRAM-SHA-512"
)

const password = `hunter2 "correct', horse`

func as(mechanism, user, password string) secure.SASL {
	return secure.SASL{Mechanism: mechanism, Username: user, Password: NewSecret(password)}
}

// refused opens a log that brokers must reject, and returns the error, which must start with what to check.
func refused(t *testing.T, brokers []string, s Security, check string) *AccessError {
	t.Helper()
	start := time.Now()
	l, err := Open(testContext(t), Options{Brokers: brokers, Security: s})
	if err == nil {
		assert.NoError(t, l.Close())
		t.Fatal("the brokers accept the connection")
	}
	took := time.Since(start)
	assert.True(t, took <= 15*time.Second, "the refusal took %v", took) // the retries take four on an idle machine
	assert.True(t, !strings.Contains(err.Error(), password), "the password is in %q", err)
	denied, ok := errors.AsType[*AccessError](err)
	assert.Need(t, ok && strings.HasPrefix(denied.Check, check), "error %v, expected %q", err, check)
	return denied
}

func openSecured(t *testing.T, brokers []string, s Security) *Log {
	t.Helper()
	return open(t, Options{Brokers: brokers, Security: s})
}

func TestMechanisms(t *testing.T) {
	for _, mechanism := range []string{mechanismPlain, mechanismScram256, mechanismScram512} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t)
			_, brokers := startCluster(t, kfake.NumBrokers(1), kfake.TLS(ca.broker(t, tls.NoClientCert)),
				kfake.EnableSASL(), kfake.Superuser(mechanism, "alice", password))
			l := openSecured(t, brokers, Security{TLS: ca.trusting(), SASL: as(mechanism, "alice", password)})
			ctx := testContext(t)
			assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
			assert.Must(l.Append(ctx, "t", 0, numberedUpTo(3, 10)...))(t)
			mustHold(t, l, "t", 0, 3, numbers(0, 3))
			for _, wrong := range []secure.SASL{as(mechanism, "alice", "guess"), as(mechanism, "bob", password)} {
				denied := refused(t, brokers, Security{TLS: ca.trusting(), SASL: wrong}, "security.sasl")
				assert.True(t, strings.Contains(denied.Check, "User:"+wrong.Username+" by mechanism "+mechanism), "%v", denied)
			}
		})
	}
}

// strict returns a listener that closes connections on requests of over 100 MB, as Kafka does (socket.request.max.bytes).
// A TLS handshake looks like such a request; kfake would wait for the rest of it.
func strict(network, address string) (net.Listener, error) {
	listener, err := net.Listen(network, address)
	return strictListener{listener}, err
}

type strictListener struct{ net.Listener }

func (l strictListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &strictConn{Conn: conn}, nil
}

type strictConn struct {
	net.Conn
	begun bool
}

func (c *strictConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.begun && n > 0 {
		if c.begun = true; b[0] >= 0x06 { // first of the four bytes of the request size
			return 0, io.EOF
		}
	}
	return n, err
}

func TestTrust(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	ca.issue(t, "client", false)
	other.issue(t, "client", false)
	_, open := startCluster(t, kfake.NumBrokers(1), kfake.ListenFn(strict))
	_, named := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.TLS(ca.broker(t, tls.NoClientCert)))
	_, secured := startCluster(t, kfake.NumBrokers(1), kfake.TLS(ca.broker(t, tls.NoClientCert)))
	_, mutual := startCluster(t, kfake.NumBrokers(1), kfake.TLS(ca.broker(t, tls.RequireAndVerifyClientCert)))
	with := func(t secure.TLS, change func(*secure.TLS)) secure.TLS { change(&t); return t }
	for name, c := range map[string]struct {
		brokers []string
		tls     secure.TLS
		check   string // start of AccessError.Check; "": the broker accepts the connection
	}{
		"the CA of the broker":     {secured, ca.trusting(), ""},
		"the name of the broker":   {secured, with(ca.trusting(), func(t *secure.TLS) { t.ServerName = "broker" }), ""},
		"another name":             {secured, with(ca.trusting(), func(t *secure.TLS) { t.ServerName = "example.org" }), "security.tls.server_name"},
		"another CA":               {secured, other.trusting(), "security.tls.ca"},
		"the CAs of the system":    {secured, secure.TLS{Enabled: true}, "security.tls.ca"},
		"plain text to a TLS port": {secured, secure.TLS{}, "security.tls.enabled: " + secured[0] + " speaks TLS"},
		"TLS to a plain text port": {open, ca.trusting(), "security.tls.enabled: " + open[0] + " does not speak TLS"},
		"no client certificate":    {mutual, ca.trusting(), "security.tls.certificate"},
		"plain text to mutual TLS": {mutual, secure.TLS{}, "security.tls.enabled: " + mutual[0] + " speaks TLS"},
		"no user":                  {named, ca.trusting(), "security.sasl: " + named[0]},
		"a client of another CA": {mutual, with(ca.trusting(), func(t *secure.TLS) {
			t.Certificate, t.Key = other.file("client.pem"), other.file("client.key")
		}), "security.tls.certificate"},
		"a client of the same CA": {mutual, with(ca.trusting(), func(t *secure.TLS) {
			t.Certificate, t.Key = ca.file("client.pem"), ca.file("client.key")
		}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.check == "" {
				openSecured(t, c.brokers, Security{TLS: c.tls})
			} else {
				refused(t, c.brokers, Security{TLS: c.tls}, c.check)
			}
		})
	}
}

// The port of a KRaft controller responds with its supported requests, and closes the connection on metadata requests. It
// is not reported as a listener with a failed login.
func TestControllerPort(t *testing.T) {
	cluster, brokers := startCluster(t, kfake.NumBrokers(1))
	cluster.ControlKey(int16(kmsg.ApiVersions), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.ApiVersionsResponse)
		for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ApiVersions, kmsg.CreateTopics, kmsg.Vote} {
			one := kmsg.NewApiVersionsResponseApiKey()
			one.ApiKey, one.MaxVersion = int16(key), 1
			response.ApiKeys = append(response.ApiKeys, one)
		}
		return response, nil, true
	})
	cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return nil, errors.New("closed"), true
	})
	refused(t, brokers, Security{}, "brokers: "+brokers[0]+" is the port of a KRaft controller")
}

// When brokers reject the password of an open log, blocked calls end. When a broker only closes the connection it may be
// stopping, so calls wait for it.
func TestPasswordChanges(t *testing.T) {
	cluster, brokers := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(mechanismPlain, "alice", password))
	l := openSecured(t, brokers, Security{SASL: as(mechanismPlain, "alice", password)})
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	reconnect := func() { // at the next append
		cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
	}
	reconnect()
	cuts := 3
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cuts--
		return nil, errors.New("cut"), cuts >= 0
	})
	assert.Must(l.Append(ctx, "t", 0, numbered(0, 10)))(t)

	reconnect()
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		response.ErrorCode, response.ErrorMessage = kerr.SaslAuthenticationFailed.Code,
			kmsg.StringPtr("Authentication failed: Invalid username or password")
		return response, nil, true
	})
	_, err := l.Append(ctx, "t", 0, numbered(1, 10))
	denied, ok := errors.AsType[*AccessError](err)
	assert.True(t, ok && errors.Is(err, kafka.SASLAuthenticationFailed) && strings.Contains(denied.Check, "User:alice by mechanism PLAIN"),
		"error %v", err)
}

// A request without permission ends at once, and the error includes the ACLs to check. Creating an existing topic needs no permission.
func TestPermissions(t *testing.T) {
	may := func(operation kmsg.ACLOperation, topic string) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: topic, Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: operation, Allow: true}
	}
	_, brokers := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser(mechanismPlain, "admin", password),
		kfake.User(mechanismPlain, "reader", password, may(kmsg.ACLOperationRead, "t"), may(kmsg.ACLOperationDescribe, "absent")))
	admin := openSecured(t, brokers, Security{SASL: as(mechanismPlain, "admin", password)})
	ctx := testContext(t)
	assert.NoError(t, admin.Create(ctx, Topic{Name: "t", Partitions: 1}, Topic{Name: "hidden", Partitions: 1}))
	assert.Must(admin.Append(ctx, "t", 0, numbered(0, 10)))(t)

	l := openSecured(t, brokers, Security{SASL: as(mechanismPlain, "reader", password)})
	l.unknownTimeout = 0
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	mustHold(t, l, "t", 0, 1, numbers(0, 1))
	for what, call := range map[string]func() error{
		"append": func() error { _, err := l.Append(ctx, "t", 0, numbered(1, 10)); return err },
		"create": func() error { return l.Create(ctx, Topic{Name: "absent", Partitions: 1}) },
		"config": func() error { _, err := l.Configs(ctx, "t"); return err },
		"delete": func() error { return l.Delete(ctx, "t") },
	} {
		err := call()
		denied, ok := errors.AsType[*AccessError](err)
		assert.True(t, ok && errors.Is(err, kafka.TopicAuthorizationFailed) && strings.HasPrefix(denied.Check, "the ACLs of User:reader"),
			"%s: %v", what, err)
	}
	assert.MustFail(l.Append(ctx, "hidden", 0, numbered(1, 10)))(t, new(*AccessError), kafka.TopicAuthorizationFailed)
}

// Open rejects invalid settings before it connects.
func TestOpenChecksSecurity(t *testing.T) {
	_, err := Open(testContext(t), Options{Brokers: []string{"127.0.0.1:1"}, Security: Security{SASL: secure.SASL{Mechanism: "GSSAPI"}}})
	assert.Fails(t, err, new(option.Problem))
}

// Nothing reveals the password: neither the options, nor the identity and dialer made from them, nor unexported fields,
// whose methods fmt does not call.
func TestSecretIsNeverShown(t *testing.T) {
	_, brokers := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(),
		kfake.Superuser(mechanismPlain, "alice", password), kfake.Superuser(mechanismScram256, "alice", password))
	for _, mechanism := range []string{mechanismPlain, mechanismScram256} {
		options := Options{Brokers: brokers, Security: Security{SASL: as(mechanism, "alice", password)}}
		secret := options.Security.SASL.Password
		l := assert.Must(Open(testContext(t), options))(t)
		defer l.Close()
		type unexported struct {
			secret  Secret
			options *Options
			list    []Security
		}
		things := []any{
			secret, &secret, options, &options, options.Security, options.Security.SASL, []Secret{secret}, map[Secret]Secret{secret: secret},
			unexported{secret, &options, []Security{options.Security}}, &unexported{secret, &options, []Security{options.Security}},
			fmt.Errorf("open %v", options), l.identity,
		}
		var shown bytes.Buffer
		text, machine := slog.New(slog.NewTextHandler(&shown, nil)), slog.New(slog.NewJSONHandler(&shown, nil))
		for _, thing := range things {
			for verb := 'A'; verb <= 'z'; verb++ {
				for _, flags := range []string{"", "+", "#", " ", "-30", "#+"} {
					if verb <= 'Z' || verb >= 'a' {
						fmt.Fprintf(&shown, "%"+flags+string(verb)+"\n", thing)
					}
				}
			}
			fmt.Fprintln(&shown, thing)
			text.Info("thing", "thing", thing)
			machine.Info("thing", "thing", thing)
			encoded, _ := json.Marshal(thing) // some cannot be encoded
			shown.Write(encoded)
		}
		for _, form := range []string{password, "hunter2", "horse", hex.EncodeToString([]byte("hunter2")),
			strings.ToUpper(hex.EncodeToString([]byte("hunter2"))), "104 117 110"} {
			at := strings.Index(shown.String(), form)
			assert.True(t, at < 0, "%s: %q appears in …%s", mechanism, form, shown.String()[max(0, at-200):max(0, at+len(form))])
		}
		assert.True(t, strings.Contains(shown.String(), "(secret)"), "nothing was printed")
	}
}

const mechanismOAuthBearer = "OAUTHBEARER"

// tokenOf returns an unsigned token of the user admin (RFC 7519, section 6.1).
func tokenOf(expiry time.Time) string {
	part := func(claims map[string]any) string {
		text, _ := json.Marshal(claims) // always encodable
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(map[string]any{"alg": "none"}) + "." +
		part(map[string]any{"sub": "admin", "iat": expiry.Add(-2 * time.Hour).Unix(), "exp": expiry.Unix()}) + "."
}

// tokenFile returns a login with a token from a file.
func tokenFile(t *testing.T, expiry time.Time) secure.SASL {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	assert.NoError(t, os.WriteFile(file, []byte(tokenOf(expiry)+"\n"), 0o600))
	return secure.SASL{Mechanism: mechanismOAuthBearer, TokenFile: file}
}

// tokenEndpoint returns a login with a token from an endpoint.
func tokenEndpoint(t *testing.T, expiry time.Time) secure.SASL {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, ok := r.BasicAuth(); !ok || user != "train" || given == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": 600}`, tokenOf(expiry))
	}))
	t.Cleanup(server.Close)
	return secure.SASL{Mechanism: mechanismOAuthBearer, Username: "train", Password: NewSecret("s3cret"), TokenURL: server.URL}
}

// takeTokens makes a broker accept OAUTHBEARER logins for which accepted returns true.
func takeTokens(cluster *kfake.Cluster, accepted func(message string) bool) {
	refused := false
	cluster.ControlKey(int16(kmsg.SASLHandshake), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.SASLHandshakeResponse)
		if response.SupportedMechanisms = []string{mechanismOAuthBearer}; request.(*kmsg.SASLHandshakeRequest).Mechanism != mechanismOAuthBearer {
			response.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		}
		return response, nil, true
	})
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		message := string(request.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes)
		response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		switch {
		case refused && message == "\x01": // the empty response to the challenge
			refused = false
			response.ErrorCode, response.ErrorMessage = kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr(`{"status":"invalid_token"}`)
		case accepted(message):
		default:
			refused = true
			response.SASLAuthBytes = []byte(`{"status":"invalid_token"}`)
		}
		return response, nil, true
	})
}

// Each login sends the current token, and the error of a rejected one includes the broker's reason.
func TestTokens(t *testing.T) {
	cluster, brokers := startCluster(t, kfake.NumBrokers(1))
	valid := tokenOf(time.Unix(4_000_000_000, 0))
	takeTokens(cluster, func(message string) bool { return message == "n,,\x01auth=Bearer "+valid+"\x01\x01" })
	for _, from := range []func(*testing.T, time.Time) secure.SASL{tokenFile, tokenEndpoint} {
		assert.Must(openSecured(t, brokers, Security{SASL: from(t, time.Unix(4_000_000_000, 0))}).Topics(testContext(t), ""))(t)
		denied := refused(t, brokers, Security{SASL: from(t, time.Unix(1_000_000_000, 0))}, "security.sasl")
		assert.Equal(t, denied.Check, "security.sasl: the brokers refuse the user in the token by mechanism OAUTHBEARER", "what to check")
		assert.Fails(t, denied, "invalid_token")
	}
}
