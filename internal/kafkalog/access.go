package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/segmentio/kafka-go"

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
	conn, err := l.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return closeWith(l.ctx, conn), nil
}

func (l *Log) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if l.broker != nil {
		return l.broker.Pipe(ctx)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// connection is a connection that closes when a context ends.
type connection struct {
	net.Conn
	forget func() bool // stops watching the context
}

func closeWith(ctx context.Context, conn net.Conn) *connection {
	return &connection{conn, context.AfterFunc(ctx, func() { conn.Close() })}
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
		switch {
		case !encrypted && l.speaksTLS(ctx, address):
			return &AccessError{Err: err, Check: "security.tls.enabled: " + address + " speaks TLS"}
		case encrypted && answers(ctx, address, l.dialPlain):
			return &AccessError{Err: err, Check: "security.tls.enabled: " + address + " does not speak TLS"}
		case l.isController(ctx, address):
			return &AccessError{Err: err, Check: "brokers: " + address + " is the port of a KRaft controller: expected the port of a broker, " +
				"as in its listeners"}
		case answers(ctx, address, l.dial): // it responds before the login and closes the connection at the login
			return &AccessError{Err: err, Check: fmt.Sprintf("security.sasl: %s does not accept %s by mechanism %s",
				address, l.identity.Principal(), l.identity.Mechanism())}
		}
	}
	return err
}

func (l *Log) speaksTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, mismatchTimeout)
	defer cancel()
	conn, err := l.dialPlain(ctx, "tcp", address)
	return err == nil && secure.SpeaksTLS(ctx, conn, address)
}

// isController reports whether the listener at an address is for controllers only: it does not answer metadata requests.
func (l *Log) isController(ctx context.Context, address string) bool {
	const metadata = 3 // https://kafka.apache.org/protocol#protocol_api_keys
	requests := requestsOf(ctx, address, l.dial)
	return len(requests) > 0 && !slices.ContainsFunc(requests, func(v kafka.ApiVersion) bool { return v.ApiKey == metadata })
}

// answers reports whether a broker answers an ApiVersions request, which needs no login.
func answers(ctx context.Context, address string, dial func(context.Context, string, string) (net.Conn, error)) bool {
	return requestsOf(ctx, address, dial) != nil
}

// requestsOf returns the requests that a broker supports; nil if it does not say.
func requestsOf(ctx context.Context, address string, dial func(context.Context, string, string) (net.Conn, error)) []kafka.ApiVersion {
	ctx, cancel := context.WithTimeout(ctx, mismatchTimeout)
	defer cancel()
	conn, err := (&kafka.Dialer{ClientID: clientID, DialFunc: dial}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil
	}
	requests, err := conn.ApiVersions()
	if err != nil {
		return nil
	}
	return requests
}
