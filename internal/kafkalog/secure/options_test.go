package secure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const password = `hunter2 "correct', horse`

// writePair writes a self-signed certificate and its key.
func writePair(t *testing.T, dir, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate = write(t, dir, name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return certificate, write(t, dir, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
}

func write(t *testing.T, dir, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Check reports every invalid setting with the reason, and never reveals the password. Package config has more of them.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	client, key := writePair(t, dir, "client")
	_, otherKey := writePair(t, dir, "other")
	empty, words, none := write(t, dir, "empty", "\nsecond line\n"), write(t, dir, "words", "certificate"), filepath.Join(dir, "none")
	huge := write(t, dir, "huge", strings.Repeat("x", 2<<20))
	as := func(mechanism, user, password string) SASL {
		return SASL{Mechanism: mechanism, Username: user, Password: NewSecret(password)}
	}
	from := func(file string) SASL {
		return SASL{Mechanism: Plain, Username: "alice", PasswordFile: file}
	}
	for name, c := range map[string]struct {
		options Options
		want    []string // start of each error
	}{
		"the zero value":              {Options{}, nil},
		"TLS":                         {Options{TLS: TLS{Enabled: true, CA: client}}, nil},
		"a certificate":               {Options{TLS: TLS{Enabled: true, Certificate: client, Key: key}}, nil},
		"a password and no mechanism": {Options{SASL: SASL{Password: NewSecret(password)}}, nil},
		"a password file":             {Options{SASL: from(write(t, dir, "password", "x\r\n"))}, nil},
		"a folder as the CA": {Options{TLS: TLS{Enabled: true, CA: dir}}, []string{"tls.ca: " + dir +
			": expected a PEM file that can be read: is a directory"}},
		"a CA that is no PEM file": {Options{TLS: TLS{Enabled: true, CA: words}}, []string{"tls.ca: " + words +
			": expected a PEM file with a certificate"}},
		"a huge CA": {Options{TLS: TLS{Enabled: true, CA: huge}}, []string{"tls.ca: " + huge +
			": expected a PEM file that can be read: it is larger than 1 MiB"}},
		"no such certificate": {Options{TLS: TLS{Enabled: true, Certificate: none, Key: key}}, []string{"tls.certificate: " +
			none + ": expected a PEM file that can be read"}},
		"a certificate that is no PEM": {Options{TLS: TLS{Enabled: true, Certificate: words, Key: key}}, []string{"tls.certificate: " +
			words + ": expected a PEM file with a certificate"}},
		"no such key": {Options{TLS: TLS{Enabled: true, Certificate: client, Key: none}}, []string{"tls.key: " + none +
			": expected a PEM file that can be read"}},
		"a key that is no PEM": {Options{TLS: TLS{Enabled: true, Certificate: client, Key: words}}, []string{"tls.key: " +
			words + ": expected the private key"}},
		"the key of another certificate": {Options{TLS: TLS{Enabled: true, Certificate: client, Key: otherKey}}, []string{"tls.key: " +
			otherKey + ": expected the private key, PEM and not encrypted, of " + client}},
		"an empty password file": {Options{SASL: from(empty)}, []string{"sasl.password_file: " + empty +
			": expected a file with the password in its first line"}},
		"a zero byte in PLAIN": {Options{SASL: as(Plain, "alice", password+"\x00")},
			[]string{"sasl.username: alice: expected no zero byte"}},
		"a character SCRAM prohibits": {Options{SASL: as(ScramSHA512, "alice", password+"\u0007")},
			[]string{"sasl.username: alice: expected a user name and a password of characters"}},
		"a CA and a mechanism at once": {Options{TLS{Enabled: true, CA: none}, SASL{Mechanism: "x", Username: "a",
			Password: NewSecret(password)}}, []string{"tls.ca", "sasl.mechanism"}},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := c.options.Check()
			if len(wrong) != len(c.want) {
				t.Fatalf("%v, expected %v", wrong, c.want)
			}
			for i, want := range c.want {
				if got := wrong[i].Error(); !strings.HasPrefix(got, "security."+want) || strings.Contains(got, password) {
					t.Errorf("%q, expected %q", got, want)
				}
			}
		})
	}
}
