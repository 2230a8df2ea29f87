// Package secure builds an [Identity] for connections to brokers from the settings under security (TLS, SASL, and their
// files), and explains access errors of brokers.
//
// A SASL mechanism is one value in one file: it owns its name, its keys, their checks, and the login. [mechanisms] lists them.
// Except for the mechanism and its password, credentials may change while a process runs: tokens expire, so each login
// uses the current ones.
package secure

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/stagewise/stagewise/internal/option"
)

// Options are the settings under security. The zero value connects in plain text, without a user.
type Options struct {
	TLS  TLS  // encrypts connections and configures which brokers to trust
	SASL SASL // authentication
}

// TLS configures which brokers to trust, and the client certificate. All files are PEM. The zero value is plain text.
type TLS struct {
	Enabled bool   // turns TLS on. Without it the other fields must be empty.
	CA      string `path:"file"` // a file with the CA certificates that sign the brokers' certificates; "": the system's
	// Certificate is a file with the client certificate and its intermediate certificates, for brokers that require one.
	// Certificate and Key are set together.
	Certificate string `path:"file"`
	Key         string `path:"file"` // the file with the private key of Certificate. It must not be encrypted.
	ServerName  string // the name in the brokers' certificates; "": the host in each broker's address
}

// Keys documents the keys under `security`.
func Keys() []option.Key {
	on := map[string]string{"tls.enabled": "security.tls.enabled: true, or no value here"}
	with := func(other, want string) map[string]string {
		return map[string]string{"tls.enabled": on["tls.enabled"], other: want}
	}
	return append([]option.Key{
		{Name: "tls.enabled", Meaning: "connect to the brokers over TLS. See [secured clusters](security.md)"},
		{Name: "tls.ca", Needs: on,
			Meaning: "PEM file with the CA certificates that sign the brokers' certificates. None: the CAs of the system"},
		{Name: "tls.certificate", Needs: with("tls.key", "its private key in security.tls.key"),
			Meaning: "PEM file with the client certificate, for brokers that require one; needs `security.tls.key`"},
		{Name: "tls.key", Needs: with("tls.certificate", "its certificate in security.tls.certificate"),
			Meaning: "PEM file with the private key of the client certificate, not encrypted"},
		{Name: "tls.server_name", Needs: on, Meaning: "the name in the brokers' certificates. None: the host of each broker's address"},
	}, option.Under("sasl", saslKeys())...)
}

// Check reads the files and returns all problems of o, by their full keys.
func (o Options) Check() option.Problems {
	_, wrong := o.Identity()
	return wrong
}

// Identity reads the files and returns the identity described by o, or all problems of o.
func (o Options) Identity() (i Identity, all option.Problems) {
	var wrong option.Problems
	if o.TLS.Enabled {
		i.tls = o.TLS.config(&wrong)
	}
	wrong.Under("", option.Check(Keys(), o, Options{}))
	if i.tls != nil && len(i.tls.Certificates) > 0 && len(wrong) == 0 {
		i.user = "User:" + i.tls.Certificates[0].Leaf.Subject.String()
	}
	how, more := o.SASL.login()
	if i.sasl = how.Mechanism; i.sasl != nil {
		i.user = how.Principal
	}
	wrong.Under("sasl", more)
	all.Under("security", wrong)
	return i, all
}

// config reads the files: the certificate and its key only if both are set.
func (t TLS) config(wrong *option.Problems) *tls.Config {
	config := &tls.Config{ServerName: t.ServerName}
	if t.CA != "" {
		config.RootCAs = authorities("tls.ca", t.CA, wrong.Add)
	}
	if t.Certificate == "" || t.Key == "" {
		return config
	}
	certificate, err := load(t.Certificate)
	block, _ := pem.Decode(certificate)
	key, unreadable := load(t.Key)
	switch {
	case err != nil:
		wrong.Add("tls.certificate", t.Certificate, "a PEM file that can be read: "+err.Error())
	case block == nil:
		wrong.Add("tls.certificate", t.Certificate, "a PEM file with a certificate")
	case unreadable != nil:
		wrong.Add("tls.key", t.Key, "a PEM file that can be read: "+unreadable.Error())
	default:
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			wrong.Add("tls.key", t.Key, "the private key, PEM and not encrypted, of "+t.Certificate+": "+err.Error())
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// authorities returns the CA certificates in a file, or calls wrong.
func authorities(key, file string, wrong func(key string, value any, want string)) *x509.CertPool {
	pool := x509.NewCertPool()
	content, err := load(file)
	switch {
	case err != nil:
		wrong(key, file, "a PEM file that can be read: "+err.Error())
	case !pool.AppendCertsFromPEM(content):
		wrong(key, file, "a PEM file with a certificate")
	}
	return pool
}

// Secret is a string that is never printed: not by fmt with any verb, not as an unexported field, not by JSON, YAML or slog.
// Only this package can read it. The zero value holds no secret.
type Secret struct {
	// A pointer, because fmt prints unexported struct fields without calling their methods, but does not follow a pointer
	// there.
	text *string
}

// NewSecret returns a Secret that holds text. An empty text gives the zero Secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// hidden is printed in place of secrets.
const hidden = "(secret)"

// String returns "(secret)" for every Secret.
func (s Secret) String() string { return hidden }

// Format prints "(secret)" for every verb.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, hidden) }

// MarshalText returns "(secret)". JSON and slog call it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// AccessError is a connection or request that cannot succeed without a change of the configuration or the cluster: a
// broker or a token endpoint denies access, or its certificate is not trusted. Retrying does not help.
type AccessError struct {
	Err   error  // the error of the broker, of TLS or of the endpoint
	Check string // the configuration key or the ACLs to check
}

func (e *AccessError) Error() string { return fmt.Sprintf("%v; check %s", e.Err, e.Check) }

// Unwrap returns Err.
func (e *AccessError) Unwrap() error { return e.Err }

// Identity is Options with the files read: the TLS configuration and the SASL mechanism of each connection. The zero value
// connects in plain text, without a user. It is safe for concurrent use.
type Identity struct {
	tls  *tls.Config    // nil: plain text
	sasl sasl.Mechanism // nil: no SASL
	user string         // name in ACLs; "": anonymous
}

// Encrypted reports whether connections use TLS.
func (i *Identity) Encrypted() bool { return i.tls != nil }

// SASL returns the SASL mechanism of connections, or nil.
func (i *Identity) SASL() sasl.Mechanism { return i.sasl }

// Principal returns the name in ACLs, such as "User:alice". Kafka's name for anonymous clients is "User:ANONYMOUS".
func (i *Identity) Principal() string { return cmp.Or(i.user, "User:ANONYMOUS") }

// Mechanism returns the name of the SASL mechanism, or "none".
func (i *Identity) Mechanism() string {
	if i.sasl == nil {
		return "none"
	}
	return i.sasl.Name()
}

// Handshake performs the TLS handshake with the broker at address (host:port) and returns the encrypted connection. Without
// TLS it returns conn. It closes conn if the handshake fails.
func (i *Identity) Handshake(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	if i.tls == nil {
		return conn, nil
	}
	return handshake(ctx, conn, address, i.tls)
}

func handshake(ctx context.Context, conn net.Conn, address string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		config = config.Clone()
		config.ServerName = host
	}
	encrypted := tls.Client(conn, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
	}
	return encrypted, nil
}

// SpeaksTLS tries a TLS handshake on conn, reports whether the server at address (host:port) speaks TLS, and closes conn.
func SpeaksTLS(ctx context.Context, conn net.Conn, address string) bool {
	// No data follows this handshake, so the server's certificate does not matter.
	conn, err := handshake(ctx, conn, address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return IsAlert(err)
	}
	conn.Close()
	return true
}

// Explain returns err as an *AccessError if it is an error of authentication, authorization or trust, and err itself
// otherwise.
func (i *Identity) Explain(err error) error {
	if check := i.check(err); check != "" && !errors.As(err, new(*AccessError)) {
		return &AccessError{err, check}
	}
	return err
}

// check returns what to check for an error, or "" if err is not about access.
func (i *Identity) check(err error) string {
	code, _ := errors.AsType[kafka.Error](err)
	switch code {
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.TransactionalIDAuthorizationFailed:
		return "the ACLs of " + i.Principal() + "; docs/security.md lists what each role needs"
	case kafka.SASLAuthenticationFailed:
		return "security.sasl: the brokers refuse " + i.Principal() + " by mechanism " + i.Mechanism()
	case kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState:
		return "security.sasl.mechanism: the brokers do not accept " + i.Mechanism()
	}
	switch {
	case errors.As(err, new(x509.HostnameError)):
		return "security.tls.server_name, and the addresses of the brokers"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "security.tls.ca"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "the certificate of the broker"
	case IsAlert(err):
		return "security.tls.certificate and security.tls.key: the broker ended the connection"
	case errors.As(err, new(tls.RecordHeaderError)):
		return "security.tls.enabled: the broker does not speak TLS"
	}
	return ""
}

// IsAlert reports whether err is a TLS alert from the broker. Usually the broker requires a client certificate, or a different one.
func IsAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" // crypto/tls's name for an alert
}
