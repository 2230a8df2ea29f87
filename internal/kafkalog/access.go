package kafkalog

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

// AccessError says that a broker does not let us in, or that we don't trust it, and what to look at. Waiting does not mend
// it.
type AccessError struct {
	Err   error
	Check string
}

func (e *AccessError) Error() string { return fmt.Sprintf("%v; check %s", e.Err, e.Check) }

func (e *AccessError) Unwrap() error { return e.Err }

// identity is what connections are made with. The zero value is plain text, as nobody.
type identity struct {
	tls  *tls.Config    // nil: plain text
	sasl sasl.Mechanism // nil: none
	user string         // what ACLs call us
}

// principal is what ACLs call us; Kafka has a name for nobody too.
func (i *identity) principal() string { return cmp.Or(i.user, "User:ANONYMOUS") }

func (i *identity) mechanism() string {
	if i.sasl == nil {
		return "none"
	}
	return i.sasl.Name()
}

// dial makes connections that end with the log, behind the TLS handshake if there is one. kafka-go would leave a request
// that nobody waits for any more under way until the broker answers, and a connection open whose handshake went wrong.
func (l *Log) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.dialPlain(ctx, network, address)
	if err != nil || l.identity.tls == nil {
		return conn, err
	}
	return handshake(ctx, conn, address, l.identity.tls)
}

func (l *Log) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	forget := context.AfterFunc(l.ctx, func() { conn.Close() })
	return &connection{conn, forget}, nil
}

func (l *Log) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if l.broker != nil && address == l.addresses[0] {
		return l.broker.listener.pipe(ctx)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

type connection struct {
	net.Conn
	forget func() bool
}

func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// handshake closes the connection if it goes wrong.
func handshake(ctx context.Context, conn net.Conn, address string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		config = config.Clone()
		config.ServerName = host
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
	}
	return secured, nil
}

// dialer is how kafka-go's consumer groups connect. TLS is what its DialFunc does.
func (l *Log) dialer() *kafka.Dialer {
	return &kafka.Dialer{ClientID: clientID, DialFunc: l.dial, SASLMechanism: l.identity.sasl, Timeout: dialTime}
}

// explain makes an *AccessError of an error that is one, and leaves others.
func (i *identity) explain(err error) error {
	if check := i.check(err); check != "" && !errors.As(err, new(*AccessError)) {
		return &AccessError{err, check}
	}
	return err
}

// unknownTopic is what a topic's lasting absence means: brokers tell who may not describe it that it is not there.
func (i *identity) unknownTopic() error {
	if i.user == "" {
		return ErrUnknownTopic
	}
	return fmt.Errorf("%w, or %s may not describe it", ErrUnknownTopic, i.user)
}

// check is what to look at, or "".
func (i *identity) check(err error) string {
	code, _ := errors.AsType[kafka.Error](err)
	switch code {
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed, kafka.TransactionalIDAuthorizationFailed:
		return "the ACLs of " + i.principal() + "; docs/security.md lists what each role needs"
	case kafka.SASLAuthenticationFailed:
		return "security.sasl: the brokers refuse the password of " + i.principal() + " by mechanism " + i.mechanism()
	case kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState:
		return "security.sasl.mechanism: the brokers want another than " + i.mechanism()
	}
	switch {
	case errors.As(err, new(x509.HostnameError)):
		return "security.tls.server_name, and the addresses of the brokers"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "security.tls.ca"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "the certificate of the broker"
	case alert(err):
		return "security.tls.certificate and security.tls.key: the broker ended the connection"
	case errors.As(err, new(tls.RecordHeaderError)):
		return "security.tls.enabled: the broker speaks no TLS"
	}
	return ""
}

// alert tells whether the other side ended a TLS connection and said why: as a rule it wants another certificate, or any.
func alert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" // crypto/tls's name for it
}

// mismatch is an *AccessError if a broker closed the connection because it speaks TLS where we speak plain text, or the
// reverse, because it wants a user and we are nobody, or, before Kafka 1.0, because the password is wrong. There are no
// words for any of these in the protocol.
func (l *Log) mismatch(ctx context.Context, err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	for _, address := range l.addresses {
		switch {
		case l.identity.tls == nil && l.speaksTLS(ctx, address):
			return &AccessError{err, "security.tls.enabled: " + address + " speaks TLS"}
		case l.identity.tls != nil && answers(ctx, address, l.dialPlain):
			return &AccessError{err, "security.tls.enabled: " + address + " speaks no TLS"}
		case answers(ctx, address, l.dial): // to the first question, and not any more behind the login
			return &AccessError{err, fmt.Sprintf("security.sasl: %s has no answer for %s by mechanism %s", address, l.identity.principal(), l.identity.mechanism())}
		}
	}
	return err
}

func (l *Log) speaksTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, mismatchTimeout)
	defer cancel()
	conn, err := l.dialPlain(ctx, "tcp", address)
	if err != nil {
		return false
	}
	// Nothing is said or heard behind this handshake, so it does not matter with whom it is.
	conn, err = handshake(ctx, conn, address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return alert(err)
	}
	conn.Close()
	return true
}

// answers tells whether a broker answers what it may be asked before anybody logs in.
func answers(ctx context.Context, address string, dial func(context.Context, string, string) (net.Conn, error)) bool {
	ctx, cancel := context.WithTimeout(ctx, mismatchTimeout)
	defer cancel()
	conn, err := (&kafka.Dialer{ClientID: clientID, DialFunc: dial}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return false
	}
	_, err = conn.ApiVersions()
	return err == nil
}
