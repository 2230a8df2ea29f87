package serve

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
)

// dial opens a connection and sends a text.
func dial(t testing.TB, address, text string) net.Conn {
	t.Helper()
	conn := assert.Must(net.Dial("tcp", address))(t)
	t.Cleanup(func() { conn.Close() })
	assert.Must(io.WriteString(conn, text))(t)
	return conn
}

// raw is an encoded request.
func raw(body []byte) []byte {
	return append(fmt.Appendf(nil, "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)),
		body...)
}

// served checks that another client gets an answer.
func served(t *testing.T, address string) {
	t.Helper()
	asking := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	response := assert.Must(asking.Post("http://"+address+"/predict", typeJSON, strings.NewReader(`{"rows":[[1,2]]}`)))(t)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	assert.True(t, err == nil && response.StatusCode == http.StatusOK, "%d: %s, %v", response.StatusCode, content, err)
}

// A slow body is rejected after the timeout, and others are served in the meantime.
func TestSlowBodies(t *testing.T) {
	o := Defaults()
	o.Timeout = 300 * time.Millisecond
	address := listening(t, o, Fixed(newModel(t, 3, 2, nil, layout.MissingError)))
	var slow []net.Conn
	for range 50 {
		slow = append(slow, dial(t, address, "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
			"application/json\r\nContent-Length: 1000000\r\n\r\n{\"rows\": [["))
	}
	served(t, address)
	for _, conn := range slow {
		response := assert.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		content, _ := io.ReadAll(response.Body)
		assert.True(t, response.StatusCode == http.StatusRequestTimeout &&
			strings.Contains(string(content), "the body did not arrive within 300ms"), "%d: %s", response.StatusCode, content)
	}
}

// Clients that only hold connections lock out nobody: they may send nothing, a part of a request, or a request without a
// token. Connections that have shown the token stay.
func TestManyConnections(t *testing.T) {
	const token = "a token of many characters"
	for _, required := range []bool{true, false} {
		o := Defaults()
		o.Connections = 50
		if required {
			o.TokenFile = filepath.Join(t.TempDir(), "token")
			assert.NoError(t, os.WriteFile(o.TokenFile, []byte(token), 0o600))
		}
		address := listening(t, o, Fixed(newModel(t, 3, 2, nil, layout.MissingError)))
		before := runtime.NumGoroutine()
		asks := dial(t, address, "")
		answers := bufio.NewReader(asks)
		ask := func() { // a client with the token, if one is required, keeps its connection
			t.Helper()
			_, err := io.WriteString(asks, "POST /predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+
				"\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"rows\":[[1,2]]}")
			response, readErr := http.ReadResponse(answers, nil)
			assert.NoError(t, errors.Join(err, readErr))
			_, err = io.Copy(io.Discard, response.Body)
			assert.Need(t, err == nil && response.StatusCode == http.StatusOK, "%v %v", response.Status, err)
		}
		probe := func() { // on a new connection
			t.Helper()
			response, err := http.ReadResponse(bufio.NewReader(dial(t, address, "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")), nil)
			assert.Need(t, err == nil && response.StatusCode == http.StatusOK, "%v %v", response, err)
		}
		ask()
		for i := range 600 {
			conn := assert.Must(net.Dial("tcp", address))(t)
			t.Cleanup(func() { conn.Close() })
			_, _ = io.WriteString(conn, []string{"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n", "", "POST /predict HTTP/1.1\r\nHost",
				"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n",
				"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"}[i%5]) // the server may have closed it
			if i%100 == 99 {
				probe()
			}
		}
		ask()
		for runtime.NumGoroutine()-before > 4*o.Connections { // closed connections end asynchronously
			runtime.Gosched()
		}
	}
}

// A page of a stranger whose name has the address of this machine reads nothing, unless a token or a proxy protects the server.
func TestRequestsForOtherMachines(t *testing.T) {
	for _, open := range []bool{false, true} {
		o := Defaults()
		o.Open = open
		address := listening(t, o, Fixed(newModel(t, 3, 2, nil, layout.MissingError)))
		for _, request := range []string{"GET /model HTTP/1.1\r\nHost: evil.example\r\n\r\n", "GET /metrics HTTP/1.0\r\n\r\n"} {
			response := assert.Must(http.ReadResponse(bufio.NewReader(dial(t, address, request)), nil))(t)
			refused := response.StatusCode == http.StatusMisdirectedRequest
			assert.True(t, refused != open, "%q: %s with serve.open: %v", request, response.Status, open)
		}
	}
}

// Bodies do not exceed the total memory limit; at the limit even small ones are rejected, with advice to retry.
func TestManyBodies(t *testing.T) {
	o := Defaults()
	o.MaxBody, o.Memory, o.Timeout = 1<<20, 1<<20, time.Second
	s := newServer(t, o, Fixed(newModel(t, 3, 2, nil, layout.MissingError)))
	assert.Need(t, allFree(s), "the memory is taken")
	w := ask(s, "POST", "/predict", typeJSON, []byte(`{"rows":[[1,2]]}`+strings.Repeat(" ", smallBytes)))
	assert.True(t, w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "", "%d: %s", w.Code, w.Body)
	freeAll(s)
	for range 3 * int(o.Memory) / smallBytes { // rejected and answered requests release their memory
		w := ask(s, "POST", "/predict", typeJSON, []byte(`{"rows":[[1,2]]}`))
		assert.Need(t, w.Code == http.StatusOK, "%d: %s", w.Code, w.Body)
	}
}

// certified writes a certificate for 127.0.0.1 and its key, and returns their files and the trusted pool.
func certified(t *testing.T) (certificateFile, keyFile string, trusted *x509.CertPool) {
	t.Helper()
	key := assert.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	certificate := assert.Must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	private := assert.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	certificateFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, block := range map[string]*pem.Block{certificateFile: {Type: "CERTIFICATE", Bytes: certificate},
		keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		assert.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	trusted = x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	return certificateFile, keyFile, trusted
}

// Replaced certificates and tokens apply to the next connection and request. While the files are inconsistent, because one
// of two is replaced before the other, the server continues with the previous content.
func TestReplacedCredentials(t *testing.T) {
	o := Defaults()
	var trusted *x509.CertPool
	o.Certificate, o.Key, trusted = certified(t)
	o.TokenFile = filepath.Join(t.TempDir(), "token")
	replace := func(file string, content []byte) {
		t.Helper()
		written := filepath.Join(t.TempDir(), "written")
		assert.NoError(t, errors.Join(os.WriteFile(written, content, 0o600), os.Rename(written, file)))
	}
	replace(o.TokenFile, []byte("the first of two tokens"))
	address := listening(t, o, Fixed(newModel(t, 3, 2, nil, layout.MissingError)))
	asked := func(trusted *x509.CertPool, token string) (status int, metrics string, err error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}
		defer transport.CloseIdleConnections()
		r := assert.Must(http.NewRequestWithContext(t.Context(), "GET", "https://"+address+"/metrics", nil))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := transport.RoundTrip(r)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		return response.StatusCode, string(content), err
	}
	works := func(trusted *x509.CertPool, token string, unreadable int) {
		t.Helper()
		status, metrics, err := asked(trusted, token)
		want := fmt.Sprintf("stagewise_credentials_unreadable{pipeline=\"p\"} %d\n", unreadable)
		assert.Need(t, err == nil && status == http.StatusOK && strings.Contains(metrics, want),
			"%d, %v, expected %s in:\n%s", status, err, want, metrics)
	}
	works(trusted, "the first of two tokens", 0)
	replace(o.TokenFile, []byte("the second of two tokens"))
	works(trusted, "the second of two tokens", 0)
	status, _, err := asked(trusted, "the first of two tokens")
	assert.True(t, status == http.StatusUnauthorized, "the token before: %d, %v", status, err)
	certificate, key, then := certified(t)
	for _, c := range []struct {
		from, to   string
		trusted    *x509.CertPool
		unreadable int
	}{{key, o.Key, trusted, 1}, {certificate, o.Certificate, then, 0}} {
		replace(c.to, assert.Must(os.ReadFile(c.from))(t))
		works(c.trusted, "the second of two tokens", c.unreadable)
	}
	_, _, err = asked(trusted, "the second of two tokens")
	assert.True(t, err != nil, "the server still has the certificate before")
	replace(o.TokenFile, []byte("short"))
	works(then, "the second of two tokens", 1)
	assert.NoError(t, os.Remove(o.TokenFile))
	works(then, "the second of two tokens", 1)
}

// A message tells the operator of unusable and of expired credentials, once for each change of the files, and when they can
// be used again: also the same files.
func TestNoticesOfCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		assert.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("a token of many characters")
	var notices []string
	reads := 0
	now := time.Now()
	c := assert.Must(newCredential(func() (time.Time, error) {
		reads++
		content, err := os.ReadFile(file)
		if err == nil && string(content) == "short" {
			err = errors.New("too short")
		}
		if string(content) == "expired" {
			return now.Add(-time.Hour), err
		}
		return now.Add(time.Hour), err
	}, func(text string) { notices = append(notices, text) }, file))(t)
	c.expires = func(at time.Time) time.Time { return at }
	for _, step := range []struct {
		change func()
		want   string // the notice
	}{
		{func() {}, ""},
		{func() { write("short") }, "the previous credentials stay in use: too short"},
		{func() { os.Rename(file, file+".away") }, "no such file"},
		{func() { os.Rename(file+".away", file) }, "too short"},
		{func() { write("a token of many characters") }, "can be used again"},
		{func() { write("expired") }, "token expired at"},
	} {
		step.change()
		before := reads
		notices = nil
		for range 3 {
			_, _ = c.get()
		}
		got := strings.Join(notices, "; ")
		assert.True(t, reads <= before+1 && (got == "") == (step.want == "") && strings.Contains(got, step.want) && len(notices) <= 1,
			"%d reads, %q, expected %s", reads-before, notices, step.want)
		_, err := c.get()
		assert.True(t, (err != nil) == (strings.Contains(step.want, "too short") || strings.Contains(step.want, "no such")),
			"%s: %v", step.want, err)
	}
}

// A token that no client can send is refused.
func TestTokensOfRandomBytes(t *testing.T) {
	o := Defaults()
	o.TokenFile = filepath.Join(t.TempDir(), "token")
	for content, valid := range map[string]bool{
		"a token of many characters\nand more\xff": true, "  dGhlIHRva2VuLCBpbiBiYXNlNjQ=\r\n": true,
		"\x8f\x03\xd2\xaa\x10\x99 random bytes of a file": false, "a tökén of many characters": false, "\ufeffa token of many characters": false,
		"a token\x00of many characters": false, "short\n0123456789abcdef": false,
	} {
		assert.NoError(t, os.WriteFile(o.TokenFile, []byte(content), 0o600))
		_, err := o.token()
		assert.True(t, (err == nil) == valid, "%q: %v", content, err)
	}
}

// With TLS and a token the server speaks HTTP/2 with clients that have the token. Others only learn that it is alive.
func TestTLSAndToken(t *testing.T) {
	const token = "a token of many characters"
	o := Defaults()
	var trusted *x509.CertPool
	o.Certificate, o.Key, trusted = certified(t)
	o.TokenFile = filepath.Join(t.TempDir(), "token")
	assert.NoError(t, os.WriteFile(o.TokenFile, []byte(token+"\nand more\n"), 0o600))
	versions := &switched{stale: fmt.Errorf("the brokers are at secret:9092")}
	address := listening(t, o, versions)
	versions.Store(newModel(t, 3, 2, nil, layout.MissingError))
	asking := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}}
	defer asking.CloseIdleConnections()
	for _, c := range []struct {
		path, authorization string
		status              int
		contains            string
	}{
		{"/predict", "", http.StatusUnauthorized, "missing or wrong bearer token"},
		{"/predict", "Bearer " + token + "x", http.StatusUnauthorized, "missing or wrong bearer token"},
		{"/predict", "Basic " + token, http.StatusUnauthorized, "missing or wrong bearer token"},
		{"/predict", "bearer " + token, http.StatusOK, `{"version":3,`},
		{"/model", "", http.StatusUnauthorized, "missing or wrong bearer token"},
		{"/metrics", "", http.StatusUnauthorized, "missing or wrong bearer token"},
		{"/metrics", "Bearer " + token, http.StatusOK, "stagewise_serving_version{"},
		{"/live", "", http.StatusOK, "alive"},
		{"/ready", "", http.StatusServiceUnavailable, `{"error":"not ready"}`},
		{"/ready", "Bearer " + token, http.StatusServiceUnavailable, "secret:9092"},
	} {
		method := http.MethodGet
		if c.path == "/predict" {
			method = http.MethodPost
		}
		r, err := http.NewRequestWithContext(context.Background(), method, "https://"+address+c.path, strings.NewReader(`{"rows":[[1,2]]}`))
		assert.NoError(t, err)
		r.Header.Set("Content-Type", typeJSON)
		if c.authorization != "" {
			r.Header.Set("Authorization", c.authorization)
		}
		response := assert.Must(asking.Do(r))(t)
		content, _ := io.ReadAll(response.Body)
		response.Body.Close()
		assert.True(t, response.StatusCode == c.status && strings.Contains(string(content), c.contains) && response.ProtoMajor == 2,
			"%s with %q: %s %d: %.200s, expected %d: %s", c.path, c.authorization, response.Proto, response.StatusCode, content, c.status,
			c.contains)
	}
}
