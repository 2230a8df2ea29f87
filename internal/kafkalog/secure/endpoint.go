package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// grants returns the tokens that the endpoint grants to the client.
func (o SASL) grants(wrong func(key, value, want string)) *renewed {
	client, secret := o.user(wrong)
	switch u, err := url.Parse(o.TokenURL); {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "":
		wrong("token_url", o.TokenURL, "the URL of a token endpoint, as in https://login.example/oauth2/token")
	case u.User != nil:
		wrong("token_url", u.Redacted(), "no user and no password in it: set security.sasl.username and security.sasl.password_file")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
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
	config *clientcredentials.Config // without the secret, so that it can't be printed; only its form of authentication is remembered
	secret Secret
	http   *http.Client
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// fetch requests a token.
func (g *grants) fetch(ctx context.Context) (*oauth2.Token, error) {
	g.config.ClientSecret = g.secret.reveal()
	token, err := g.config.Token(context.WithValue(ctx, oauth2.HTTPClient, g.http))
	g.config.ClientSecret = ""
	what := "fetch a token from security.sasl.token_url " + g.config.TokenURL
	if err == nil && !tokenCharacters.MatchString(token.AccessToken) {
		return nil, &RefusedError{attempt(what, errors.New("the answer has no bearer token")), "security.sasl.token_url"}
	}
	if err == nil {
		return token, nil
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
		return nil, &RefusedError{attempt(what, err), check}
	case answered:
		err = fmt.Errorf("status %s", answer.Response.Status)
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return nil, &RefusedError{attempt(what, err), "security.sasl.token_ca"}
	}
	return nil, passingError{attempt(what, err)}
}
