// Package secure turns the settings under security (TLS, SASL, and the files they name) into an [Identity] for connections to
// brokers, and explains the errors of brokers that refuse it.
package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Options are the settings under security. The zero value connects in plain text, without a user.
type Options struct {
	// TLS encrypts connections and says which brokers to trust.
	TLS TLS
	// SASL logs in with a user name and a password.
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

// SASL is a user with a password. The zero value logs in as nobody.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; "": no SASL.
	Mechanism string
	// Username is the name of the user. A Mechanism requires it.
	Username string
	// Password is the password. A Mechanism requires either Password or PasswordFile; without a Mechanism Password is ignored.
	Password Secret
	// PasswordFile is a file with the password in its first line.
	PasswordFile string `mapstructure:"password_file" path:"file"`
}

const (
	mechanismPlain    = "PLAIN"
	mechanismScram256 = "SCRAM-SHA-256"
	mechanismScram512 = "SCRAM-SHA-512"
)

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
	var wrong, more []*Error
	if i.tls, wrong = o.TLS.config(); i.tls != nil && len(i.tls.Certificates) > 0 {
		i.user = "User:" + i.tls.Certificates[0].Leaf.Subject.String()
	}
	if i.sasl, more = o.SASL.mechanism(); i.sasl != nil {
		i.user = "User:" + o.SASL.Username
	}
	return i, append(wrong, more...)
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
		content, err := load(t.CA)
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
	certificate, err := load(t.Certificate)
	if err != nil {
		return tls.Certificate{}, &Error{"tls.certificate", t.Certificate, "a PEM file that can be read: " + err.Error()}
	}
	if block, _ := pem.Decode(certificate); block == nil {
		return tls.Certificate{}, &Error{"tls.certificate", t.Certificate, "a PEM file with a certificate"}
	}
	key, err := load(t.Key)
	if err != nil {
		return tls.Certificate{}, &Error{"tls.key", t.Key, "a PEM file that can be read: " + err.Error()}
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, &Error{"tls.key", t.Key, "the private key, PEM and not encrypted, of " + t.Certificate + ": " + err.Error()}
	}
	return pair, nil
}

// mechanism returns nil if no mechanism is set or a setting is wrong.
func (s SASL) mechanism() (sasl.Mechanism, []*Error) {
	var wrong []*Error
	bad := func(key, value, want string) { wrong = append(wrong, &Error{"sasl." + key, value, want}) }
	const mechanisms = mechanismPlain + ", " + mechanismScram256 + " or " + mechanismScram512
	switch s.Mechanism {
	case mechanismPlain, mechanismScram256, mechanismScram512:
	case "":
		if s.Username != "" {
			bad("username", s.Username, "security.sasl.mechanism to be "+mechanisms)
		}
		if s.PasswordFile != "" {
			bad("password_file", s.PasswordFile, "security.sasl.mechanism to be "+mechanisms)
		}
		return nil, wrong
	default:
		bad("mechanism", s.Mechanism, mechanisms)
	}
	if s.Username == "" {
		bad("username", "not set", "the name of a user")
	}
	password := s.Password.reveal()
	switch {
	case s.PasswordFile == "" && password == "":
		bad("password_file", "not set", "a file with the password, or the password in the environment")
	case s.PasswordFile != "" && password != "":
		bad("password_file", s.PasswordFile, "no value here, because the environment has the password")
	case s.PasswordFile != "":
		content, err := load(s.PasswordFile)
		password, _, _ = strings.Cut(string(content), "\n")
		password = strings.TrimSuffix(password, "\r")
		switch {
		case err != nil:
			bad("password_file", s.PasswordFile, "a file that can be read: "+err.Error())
		case password == "":
			bad("password_file", s.PasswordFile, "a file with the password in its first line")
		}
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	if s.Mechanism == mechanismPlain {
		if strings.ContainsRune(s.Username+password, 0) { // PLAIN separates user and password by a zero byte
			return nil, []*Error{{"sasl.username", s.Username, "no zero byte in it or in the password"}}
		}
		return plainMechanism{s.Username, NewSecret(password)}, nil
	}
	algorithm := scram.SHA256
	if s.Mechanism == mechanismScram512 {
		algorithm = scram.SHA512
	}
	mechanism, err := scram.Mechanism(algorithm, s.Username, password)
	if err != nil { // the error holds the password, so it is dropped
		return nil, []*Error{{"sasl.username", s.Username, "a user name and a password of characters that SCRAM allows (RFC 4013)"}}
	}
	return mechanism, nil
}

// plainMechanism is the mechanism PLAIN. It makes kafka-go's only at the login, because printing that one shows the password.
type plainMechanism struct {
	username string
	password Secret
}

func (p plainMechanism) Name() string { return mechanismPlain }

func (p plainMechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	return plain.Mechanism{Username: p.username, Password: p.password.reveal()}.Start(ctx)
}

// load reads a file of at most 1 MiB, far more than a certificate or a password takes. Its errors leave out the file's name,
// which Error prints as Value.
func load(name string) ([]byte, error) {
	const maxBytes = 1 << 20
	content, err := func() ([]byte, error) {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return io.ReadAll(io.LimitReader(file, maxBytes+1))
	}()
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if err == nil && len(content) > maxBytes {
		err = errors.New("it is larger than 1 MiB")
	}
	return content, err
}
