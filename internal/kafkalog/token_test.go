package kafkalog

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

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
	noError(t, os.WriteFile(file, []byte(tokenOf(expiry)+"\n"), 0o600))
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
		l := openSecured(t, brokers, Security{SASL: from(t, time.Unix(4_000_000_000, 0))})
		must(l.Topics(testContext(t), ""))(t)
		denied := access(t, brokers, Security{SASL: from(t, time.Unix(1_000_000_000, 0))})
		if want := "security.sasl: the brokers refuse the user in the token by mechanism OAUTHBEARER"; denied.Check != want ||
			!strings.Contains(denied.Error(), "invalid_token") {
			t.Errorf("%v, expected %q", denied, want)
		}
	}
	wrong := tokenEndpoint(t, time.Now())
	wrong.Username = "somebody"
	if denied := access(t, brokers, Security{SASL: wrong}); !strings.Contains(denied.Check, "the endpoint refuses client somebody") {
		t.Error(denied)
	}
	nowhere := tokenEndpoint(t, time.Now())
	nowhere.TokenURL = "http://127.0.0.1:1/token"
	_, err := Open(testContext(t), Options{Brokers: brokers, Security: Security{SASL: nowhere}})
	if err == nil || !strings.Contains(err.Error(), "fetch a token from security.sasl.token_url "+nowhere.TokenURL) {
		t.Errorf("no endpoint: %v", err)
	}
}

// reconnect makes the broker close the connection at the next request for a topic.
func reconnect(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
}

// An open log uses a token renewed in its file at the next login.
func TestTokenIsRenewed(t *testing.T) {
	cluster, brokers := startCluster(t, kfake.NumBrokers(1))
	var logins []string
	takeTokens(cluster, func(message string) bool { logins = append(logins, message); return true })
	sasl := tokenFile(t, time.Unix(4_000_000_000, 0))
	l := openSecured(t, brokers, Security{SASL: sasl})
	renewed := tokenOf(time.Unix(4_100_000_000, 0))
	noError(t, os.WriteFile(sasl.TokenFile, []byte(renewed), 0o600))
	reconnect(cluster)
	noError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
	if last := logins[len(logins)-1]; len(logins) < 2 || !strings.Contains(last, renewed) {
		t.Errorf("logins %q", logins)
	}
}

// An open log waits while the token endpoint is unavailable, and continues afterwards.
func TestEndpointIsAway(t *testing.T) {
	cluster, brokers := startCluster(t, kfake.NumBrokers(1))
	takeTokens(cluster, func(string) bool { return true })
	away := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if away--; away >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token": "t", "expires_in": -1}`) // renewed at each login
	}))
	t.Cleanup(server.Close)
	l := openSecured(t, brokers, Security{SASL: secure.SASL{Mechanism: mechanismOAuthBearer, Username: "train", Password: NewSecret("s3cret"),
		TokenURL: server.URL}})
	away = 3
	reconnect(cluster)
	if err := l.Create(testContext(t), Topic{Name: "t", Partitions: 1}); err != nil || away >= 0 {
		t.Errorf("%v, and %d refusals are left", err, away)
	}
}
