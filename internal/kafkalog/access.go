package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

// Aliases of package secure, so that the pipeline imports only this package.
type (
	// Security is how to authenticate brokers, and ourselves to them. The zero value is plain text without a user.
	Security = secure.Options
	// Secret is a string that is never printed.
	Secret = secure.Secret
	// AccessError is an error of authentication, authorization or trust. Retrying does not help.
	AccessError = secure.AccessError
)

// NewSecret returns a Secret that holds text. An empty text gives the zero Secret.
func NewSecret(text string) Secret { return secure.NewSecret(text) }

// dial opens a connection that closes with the log, after the TLS handshake if TLS is enabled. It replaces kafka-go's own
// dialer, which leaves an abandoned request open until the broker answers, and a connection open after a failed handshake.
func (l *Log) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.dialPlain(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return l.identity.Handshake(ctx, conn, address)
}

func (l *Log) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	dial := new(net.Dialer).DialContext
	if l.broker != nil {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return l.broker.listener.pipe(ctx) }
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &connection{conn, context.AfterFunc(l.ctx, func() { conn.Close() })}, nil
}

// connection is a connection that closes when a context ends.
type connection struct {
	net.Conn
	forget func() bool // stops watching the context
}

func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// mismatch returns an *AccessError if a broker closed the connection because only one side uses TLS, because it requires
// authentication, or, before Kafka 1.0, because the password is wrong. The protocol has no error codes for these, so
// mismatch tries the other ways to connect.
func (l *Log) mismatch(ctx context.Context, err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	encrypted := l.identity.Encrypted()
	for _, address := range l.addresses {
		check := ""
		switch requests := l.requests(ctx, address, l.dial); {
		case !encrypted && l.speaksTLS(ctx, address):
			check = "security.tls.enabled: " + address + " speaks TLS"
		case encrypted && l.requests(ctx, address, l.dialPlain) != nil:
			check = "security.tls.enabled: " + address + " does not speak TLS"
		case requests == nil:
			continue
		case !slices.ContainsFunc(requests, func(r kmsg.ApiVersionsResponseApiKey) bool { return r.ApiKey == int16(kmsg.Metadata) }):
			check = "brokers: " + address + " is the port of a KRaft controller: expected the port of a broker, as in its listeners"
		default: // it responds before the login and closes the connection at the login
			check = fmt.Sprintf("security.sasl: %s does not accept %s by mechanism %s", address, l.identity.Principal(), l.identity.Mechanism())
		}
		return &AccessError{Err: err, Check: check}
	}
	return err
}

func (l *Log) speaksTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, mismatchTimeout)
	defer cancel()
	conn, err := l.dialPlain(ctx, "tcp", address)
	return err == nil && secure.SpeaksTLS(ctx, conn, address)
}

// requests returns the requests that a broker supports, for which it needs no login; nil if it does not say.
func (l *Log) requests(
	ctx context.Context, address string, dial func(context.Context, string, string) (net.Conn, error),
) []kmsg.ApiVersionsResponseApiKey {
	ctx, cancel := context.WithTimeout(ctx, mismatchTimeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	found, err := (&call{request: kmsg.NewPtrApiVersionsRequest()}).RawExchange(conn)
	if err != nil {
		return nil
	}
	return found.(*answer).Response.(*kmsg.ApiVersionsResponse).ApiKeys
}
