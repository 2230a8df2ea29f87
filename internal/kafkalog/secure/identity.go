package secure

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

// AccessError is a connection or request that cannot succeed without a change of the configuration or the cluster: a
// broker or a token endpoint denies access, or its certificate is not trusted. Retrying does not help.
type AccessError struct {
	// Err is the error of the broker, of TLS or of the endpoint.
	Err error
	// Check is the configuration key or the ACLs to check.
	Check string
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
