// Package secure turns the settings under security (TLS, SASL, and the files they name) into an [Identity] for connections to
// brokers, and explains the errors of brokers that refuse it.
package secure

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/stagewise/stagewise/internal/kafkalog/login"
)

// Options are the settings under security. The zero value connects in plain text, without a user.
type Options struct {
	// TLS encrypts connections and says which brokers to trust.
	TLS TLS
	// SASL logs in.
	SASL SASL
}

// TLS says which brokers to trust, and which certificate to show them. All files are PEM. The zero value is plain text.
type TLS struct {
	// Enabled turns TLS on. Without it the other fields must be empty.
	Enabled bool
	// CA is a file with the CA certificates that sign the brokers' certificates; "": the system's.
	CA string `path:"file"`
	// Certificate is a file with our certificate and its intermediate certificates. It is for brokers that require client
	// certificates. Certificate and Key are set together.
	Certificate string `path:"file"`
	// Key is the file with the private key of Certificate. It must not be encrypted.
	Key string `path:"file"`
	// ServerName is the name in the brokers' certificates; "": the host in each broker's address.
	ServerName string `mapstructure:"server_name"`
}

// These names are of package login, so that others import only this package.
type (
	// SASL is how connections log in. The zero value logs in as nobody.
	SASL = login.Options
	// Secret is a string that is never printed.
	Secret = login.Secret
)

// NewSecret returns a Secret that holds text. An empty text gives the zero Secret.
func NewSecret(text string) Secret { return login.NewSecret(text) }

// Error is a setting that is invalid, or that names a file that cannot be used.
type Error struct {
	// Key is the setting, relative to Options, such as "tls.ca".
	Key string
	// Value is the setting's value. It never holds a password.
	Value string
	// Want is what was expected instead.
	Want string
}

func (e *Error) Error() string {
	return fmt.Sprintf("security.%s: %s: expected %s", e.Key, e.Value, e.Want)
}

// Check reads the files and returns all that is wrong with o.
func (o Options) Check() []*Error {
	_, wrong := o.Identity()
	return wrong
}

// Identity reads the files and returns the identity that o describes, or all that is wrong with o.
func (o Options) Identity() (Identity, []*Error) {
	var i Identity
	var wrong []*Error
	if i.tls, wrong = o.TLS.config(); i.tls != nil && len(i.tls.Certificates) > 0 {
		i.user = "User:" + i.tls.Certificates[0].Leaf.Subject.String()
	}
	how, more := o.SASL.Login()
	if i.sasl = how.Mechanism; i.sasl != nil {
		i.user = how.Principal
	}
	for _, p := range more {
		wrong = append(wrong, &Error{"sasl." + p.Key, p.Value, p.Want})
	}
	return i, wrong
}

// config returns nil if TLS is not enabled or a setting is wrong.
func (t TLS) config() (*tls.Config, []*Error) {
	var wrong []*Error
	if !t.Enabled {
		for _, said := range [...]struct{ key, value string }{
			{"ca", t.CA}, {"certificate", t.Certificate}, {"key", t.Key}, {"server_name", t.ServerName},
		} {
			if said.value != "" {
				wrong = append(wrong, &Error{"tls." + said.key, said.value, "security.tls.enabled: true, or no value here"})
			}
		}
		return nil, wrong
	}
	config := &tls.Config{ServerName: t.ServerName}
	if t.CA != "" {
		config.RootCAs = x509.NewCertPool()
		content, err := login.Load(t.CA)
		switch {
		case err != nil:
			wrong = append(wrong, &Error{"tls.ca", t.CA, "a PEM file that can be read: " + err.Error()})
		case !config.RootCAs.AppendCertsFromPEM(content):
			wrong = append(wrong, &Error{"tls.ca", t.CA, "a PEM file with a certificate"})
		}
	}
	switch {
	case t.Certificate != "" && t.Key != "":
		certificate, unusable := t.pair()
		if unusable != nil {
			wrong = append(wrong, unusable)
		}
		config.Certificates = []tls.Certificate{certificate}
	case t.Certificate != "":
		wrong = append(wrong, &Error{"tls.certificate", t.Certificate, "its private key in security.tls.key"})
	case t.Key != "":
		wrong = append(wrong, &Error{"tls.key", t.Key, "its certificate in security.tls.certificate"})
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return config, nil
}

// pair reads the client certificate and its key.
func (t TLS) pair() (tls.Certificate, *Error) {
	certificate, err := login.Load(t.Certificate)
	if err != nil {
		return tls.Certificate{}, &Error{"tls.certificate", t.Certificate, "a PEM file that can be read: " + err.Error()}
	}
	if block, _ := pem.Decode(certificate); block == nil {
		return tls.Certificate{}, &Error{"tls.certificate", t.Certificate, "a PEM file with a certificate"}
	}
	key, err := login.Load(t.Key)
	if err != nil {
		return tls.Certificate{}, &Error{"tls.key", t.Key, "a PEM file that can be read: " + err.Error()}
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, &Error{"tls.key", t.Key, "the private key, PEM and not encrypted, of " + t.Certificate + ": " + err.Error()}
	}
	return pair, nil
}
