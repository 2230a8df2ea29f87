package secure

import (
	"context"
	"errors"
	"time"

	"golang.org/x/oauth2"
)

// fetchTime is the time limit for fetching a token. A connection has 5 s for the whole login.
const fetchTime = 4 * time.Second

// renewed is a token that all connections share. It is fetched again before it expires.
type renewed struct {
	fetch func(context.Context) (*oauth2.Token, error)
	now   func() time.Time

	turn    chan struct{} // a lock for the fields below
	current *oauth2.Token
	renew   time.Time // when current is to be renewed; zero: never
}

func newRenewed(fetch func(context.Context) (*oauth2.Token, error)) *renewed {
	return &renewed{fetch: fetch, now: time.Now, turn: make(chan struct{}, 1)}
}

// token returns the text of the current token.
func (r *renewed) token(ctx context.Context) (string, error) {
	token, err := r.get(ctx)
	if err != nil {
		return "", err
	}
	return token.AccessToken, nil
}

// get returns the current token, or fetches another one after four fifths of its lifetime: during the rest, the current
// token covers logins while none can be fetched.
func (r *renewed) get(ctx context.Context) (*oauth2.Token, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began := r.now()
	if r.current != nil && (r.renew.IsZero() || began.Before(r.renew)) {
		return r.current, nil
	}
	token, err := r.fetch(ctx)
	switch {
	case err == nil:
		r.current, r.renew = token, time.Time{}
		if !token.Expiry.IsZero() {
			r.renew = began.Add(token.Expiry.Sub(began) * 4 / 5)
		}
	case r.current == nil || !r.current.Expiry.After(began) || errors.As(err, new(*RefusedError)):
		return nil, err
	}
	return r.current, nil
}
