// Package secure builds an [Identity] for connections to brokers from the settings under security (TLS, SASL, and their
// files), and explains access errors of brokers.
//
// A SASL mechanism is one value in one file: it owns its name, its keys, their checks, and the login. [mechanisms] lists them.
// Except for the mechanism and its password, credentials may change while a process runs: tokens expire, so each login
// uses the current ones.
package secure

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"

	"github.com/stagewise/stagewise/internal/option"
)

// Options are the settings under security. The zero value connects in plain text, without a user.
type Options struct {
	// TLS encrypts connections and configures which brokers to trust.
	TLS TLS
	// SASL configures authentication.
	SASL SASL
}

// TLS configures which brokers to trust, and the client certificate. All files are PEM. The zero value is plain text.
type TLS struct {
	// Enabled turns TLS on. Without it the other fields must be empty.
	Enabled bool
	// CA is a file with the CA certificates that sign the brokers' certificates; "": the system's.
	CA string `path:"file"`
	// Certificate is a file with the client certificate and its intermediate certificates, for brokers that require one.
	// Certificate and Key are set together.
	Certificate string `path:"file"`
	// Key is the file with the private key of Certificate. It must not be encrypted.
	Key string `path:"file"`
	// ServerName is the name in the brokers' certificates; "": the host in each broker's address.
	ServerName string
}

// Keys documents the keys under `security`.
func Keys() []option.Key {
	on := map[string]string{"tls.enabled": "security.tls.enabled: true, or no value here"}
	with := func(other, want string) map[string]string {
		return map[string]string{"tls.enabled": on["tls.enabled"], other: want}
	}
	return append([]option.Key{
		{Name: "tls.enabled", Meaning: "connect to the brokers over TLS. See [secured clusters](security.md)"},
		{Name: "tls.ca", Needs: on,
			Meaning: "PEM file with the CA certificates that sign the brokers' certificates. None: the CAs of the system"},
		{Name: "tls.certificate", Needs: with("tls.key", "its private key in security.tls.key"),
			Meaning: "PEM file with the client certificate, for brokers that require one; needs `security.tls.key`"},
		{Name: "tls.key", Needs: with("tls.certificate", "its certificate in security.tls.certificate"),
			Meaning: "PEM file with the private key of the client certificate, not encrypted"},
		{Name: "tls.server_name", Needs: on, Meaning: "the name in the brokers' certificates. None: the host of each broker's address"},
	}, option.Under("sasl", saslKeys())...)
}

// Check reads the files and returns all problems of o, by their full keys.
func (o Options) Check() []option.Problem {
	_, wrong := o.Identity()
	return wrong
}

// Identity reads the files and returns the identity described by o, or all problems of o.
func (o Options) Identity() (Identity, []option.Problem) {
	var i Identity
	wrong := option.Check(Keys(), o, Options{})
	if o.TLS.Enabled {
		var unusable []option.Problem
		i.tls, unusable = o.TLS.config()
		if wrong = append(unusable, wrong...); len(i.tls.Certificates) > 0 && len(wrong) == 0 {
			i.user = "User:" + i.tls.Certificates[0].Leaf.Subject.String()
		}
	}
	how, more := o.SASL.login()
	if i.sasl = how.Mechanism; i.sasl != nil {
		i.user = how.Principal
	}
	for _, p := range more {
		p.Key = "sasl." + p.Key
		wrong = append(wrong, p)
	}
	for i := range wrong {
		wrong[i].Key = "security." + wrong[i].Key
	}
	return i, wrong
}

// config reads the files: the certificate and its key only if both are set.
func (t TLS) config() (config *tls.Config, problems []option.Problem) {
	wrong := func(key, value, want string) {
		problems = append(problems, option.Problem{Key: "tls." + key, Value: value, Want: want})
	}
	config = &tls.Config{ServerName: t.ServerName}
	if t.CA != "" {
		config.RootCAs = authorities("ca", t.CA, wrong)
	}
	if t.Certificate == "" || t.Key == "" {
		return config, problems
	}
	certificate, err := load(t.Certificate)
	block, _ := pem.Decode(certificate)
	key, unreadable := load(t.Key)
	switch {
	case err != nil:
		wrong("certificate", t.Certificate, "a PEM file that can be read: "+err.Error())
	case block == nil:
		wrong("certificate", t.Certificate, "a PEM file with a certificate")
	case unreadable != nil:
		wrong("key", t.Key, "a PEM file that can be read: "+unreadable.Error())
	default:
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			wrong("key", t.Key, "the private key, PEM and not encrypted, of "+t.Certificate+": "+err.Error())
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, problems
}

// authorities returns the CA certificates in a file, or calls wrong.
func authorities(key, file string, wrong func(key, value, want string)) *x509.CertPool {
	pool := x509.NewCertPool()
	content, err := load(file)
	switch {
	case err != nil:
		wrong(key, file, "a PEM file that can be read: "+err.Error())
	case !pool.AppendCertsFromPEM(content):
		wrong(key, file, "a PEM file with a certificate")
	}
	return pool
}

// Secret is a string that is never printed: not by fmt with any verb, not as an unexported field, not by JSON, YAML or slog.
// Only this package can read it. The zero value holds no secret.
type Secret struct {
	// A pointer, because fmt prints unexported struct fields without calling their methods, but does not follow a pointer
	// there.
	text *string
}

// NewSecret returns a Secret that holds text. An empty text gives the zero Secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// hidden is printed in place of secrets.
const hidden = "(secret)"

// String returns "(secret)" for every Secret.
func (s Secret) String() string { return hidden }

// Format prints "(secret)" for every verb.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, hidden) }

// MarshalText returns "(secret)". JSON and slog call it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}
