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

// Check reads the files and returns all problems of o, by their full keys.
func (o Options) Check() []option.Problem {
	_, wrong := o.Identity()
	return wrong
}

// Identity reads the files and returns the identity described by o, or all problems of o.
func (o Options) Identity() (Identity, []option.Problem) {
	var i Identity
	var wrong []option.Problem
	if i.tls, wrong = o.TLS.config(); i.tls != nil && len(i.tls.Certificates) > 0 {
		i.user = "User:" + i.tls.Certificates[0].Leaf.Subject.String()
	}
	how, more := o.SASL.login()
	if i.sasl = how.Mechanism; i.sasl != nil {
		i.user = how.Principal
	}
	for _, p := range more {
		wrong = append(wrong, problem("sasl."+p.Key, p.Value, p.Want))
	}
	return i, wrong
}

// config returns nil if TLS is not enabled or a setting is invalid.
func (t TLS) config() (*tls.Config, []option.Problem) {
	var wrong []option.Problem
	if !t.Enabled {
		for _, said := range [...]struct{ key, value string }{
			{"ca", t.CA}, {"certificate", t.Certificate}, {"key", t.Key}, {"server_name", t.ServerName},
		} {
			if said.value != "" {
				wrong = append(wrong, problem("tls."+said.key, said.value, "security.tls.enabled: true, or no value here"))
			}
		}
		return nil, wrong
	}
	config := &tls.Config{ServerName: t.ServerName}
	if t.CA != "" {
		config.RootCAs = x509.NewCertPool()
		content, err := load(t.CA)
		switch {
		case err != nil:
			wrong = append(wrong, problem("tls.ca", t.CA, "a PEM file that can be read: "+err.Error()))
		case !config.RootCAs.AppendCertsFromPEM(content):
			wrong = append(wrong, problem("tls.ca", t.CA, "a PEM file with a certificate"))
		}
	}
	switch {
	case t.Certificate != "" && t.Key != "":
		certificate, unusable := t.pair()
		if unusable != (option.Problem{}) {
			wrong = append(wrong, unusable)
		}
		config.Certificates = []tls.Certificate{certificate}
	case t.Certificate != "":
		wrong = append(wrong, problem("tls.certificate", t.Certificate, "its private key in security.tls.key"))
	case t.Key != "":
		wrong = append(wrong, problem("tls.key", t.Key, "its certificate in security.tls.certificate"))
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return config, nil
}

// problem returns what is wrong with a key below security.
func problem(key, value, want string) option.Problem {
	return option.Problem{Key: "security." + key, Value: value, Want: want}
}

// pair reads the client certificate and its key.
func (t TLS) pair() (tls.Certificate, option.Problem) {
	certificate, err := load(t.Certificate)
	if err != nil {
		return tls.Certificate{}, problem("tls.certificate", t.Certificate, "a PEM file that can be read: "+err.Error())
	}
	if block, _ := pem.Decode(certificate); block == nil {
		return tls.Certificate{}, problem("tls.certificate", t.Certificate, "a PEM file with a certificate")
	}
	key, err := load(t.Key)
	if err != nil {
		return tls.Certificate{}, problem("tls.key", t.Key, "a PEM file that can be read: "+err.Error())
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, problem("tls.key", t.Key, "the private key, PEM and not encrypted, of "+t.Certificate+": "+err.Error())
	}
	return pair, option.Problem{}
}
