package typed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/internal/arrowtest"
)

// certificate writes a self-signed certificate and its key, and returns the files.
func certificate(t *testing.T, name string) (cert, key string, parsed *x509.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	arrowtest.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, DNSNames: []string{"localhost"}}
	content, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	arrowtest.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	arrowtest.NoError(t, err)
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	arrowtest.NoError(t, errors.Join(os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)))
	parsed = arrowtest.Must(x509.ParseCertificate(content))(t)
	return cert, key, parsed
}

// A TLS registry is trusted through its CA file, and may require a client certificate. Otherwise the error includes the
// key.
func TestTLS(t *testing.T) {
	fake := srfake.New()
	defer fake.Close()
	fake.SeedSchema("e", 1, 1, sr.Schema{Schema: `"int"`})
	ca, caKey, _ := certificate(t, "registry")
	own, key, parsed := certificate(t, "client")
	pair := arrowtest.Must(tls.LoadX509KeyPair(ca, caKey))(t)
	trusted := x509.NewCertPool()
	trusted.AddCert(parsed)
	server := httptest.NewUnstartedServer(fake.Handler())
	server.Config.ErrorLog = nil
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()
	url := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	for name, test := range map[string]struct {
		options Registry
		want    string // "": it works
	}{
		"all":            {Registry{URL: url, CA: ca, Cert: own, Key: key}, ""},
		"no CA":          {Registry{URL: url, Cert: own, Key: key}, "examples.registry.ca must be a file with its CA certificate"},
		"no certificate": {Registry{URL: url, CA: ca}, "get the schema 1"},
		"a lost CA":      {Registry{URL: url, CA: "gone.pem"}, "examples.registry.ca: open gone.pem"},
		"no PEM":         {Registry{URL: url, CA: key}, "examples.registry.ca: expected a PEM file with a certificate"},
		"another key":    {Registry{URL: url, CA: ca, Cert: own, Key: caKey}, "examples.registry.cert: "},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Open(test.options)
			var s *format.Schema
			if err == nil {
				s, err = c.Schema(t.Context(), format.SchemaID{Number: 1})
			}
			if test.want == "" && (err != nil || s.Text != `"int"` || s.Type != "AVRO") || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%+v, %v, expected %s", s, err, test.want)
			}
		})
	}
}

// A schema is fetched once. A missing one is requested again after a thousand messages.
func TestSchemasAreFetchedOnce(t *testing.T) {
	fake := srfake.New()
	defer fake.Close()
	fake.SeedSchema("e", 1, 1, sr.Schema{Schema: `"int"`})
	requests := 0
	fake.Intercept(func(http.ResponseWriter, *http.Request) bool { requests++; return false })
	c, err := Open(Registry{URL: fake.URL()})
	arrowtest.NoError(t, err)
	for range 10 {
		arrowtest.Must(c.Schema(t.Context(), format.SchemaID{Number: 1}))(t)
		if _, err := c.Schema(t.Context(), format.SchemaID{Number: 2}); err == nil {
			t.Fatal("a schema that is not there")
		}
	}
	if requests != 2 {
		t.Errorf("%d requests, expected one for each ID", requests)
	}
	fake.SeedSchema("f", 1, 2, sr.Schema{Schema: `"int"`})
	asked := 0
	for ; err == nil && asked < 2*askAgain; asked++ {
		if _, e := c.Schema(t.Context(), format.SchemaID{Number: 2}); e == nil {
			break
		}
	}
	if asked >= askAgain {
		t.Errorf("%d messages were in vain after the schema was there", asked)
	}
}
