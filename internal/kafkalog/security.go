package kafkalog

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

// Security is how brokers are reached and who we are to them. The zero value is plain text, as nobody.
type Security struct {
	TLS  TLS
	SASL SASL
}

// TLS says whom we trust to be a broker, and by which certificate brokers know us. The files are PEM.
type TLS struct {
	Enabled bool
	// CA has the certificates that sign those of brokers; "": the system's.
	CA string
	// Certificate, with those that lead to its CA, and Key are ours, for brokers that want to see one. Both or neither.
	Certificate string
	Key         string
	// ServerName is the name in the certificates of brokers; "": the host that each is reached at.
	ServerName string `mapstructure:"server_name"`
}

// SASL is who we are by a password. The zero value is nobody.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Username  string
	// Password, or the first line of PasswordFile, proves it. One of the two; without a Mechanism neither is looked at.
	Password     Secret
	PasswordFile string `mapstructure:"password_file"`
}

const (
	mechanismPlain    = "PLAIN"
	mechanismScram256 = "SCRAM-SHA-256"
	mechanismScram512 = "SCRAM-SHA-512"
)

// SecurityError says that a value of Security can't be, or that the file that it names can't be used.
type SecurityError struct {
	Key, Value, Want string // Key is relative to Security: tls.ca
}

func (e *SecurityError) Error() string {
	return fmt.Sprintf("security.%s: %s: expected %s", e.Key, e.Value, e.Want)
}

// Check finds what is impossible, for which it reads the files.
func (s Security) Check() []*SecurityError {
	_, wrong := s.identity()
	return wrong
}

func (s Security) identity() (identity, []*SecurityError) {
	var i identity
	var wrong, more []*SecurityError
	if i.tls, wrong = s.TLS.config(); i.tls != nil && len(i.tls.Certificates) > 0 {
		i.user = "User:" + i.tls.Certificates[0].Leaf.Subject.String()
	}
	if i.sasl, more = s.SASL.mechanism(); i.sasl != nil {
		i.user = "User:" + s.SASL.Username
	}
	return i, append(wrong, more...)
}

// config is nil if TLS is not enabled, or something is wrong.
func (t TLS) config() (*tls.Config, []*SecurityError) {
	var wrong []*SecurityError
	if !t.Enabled {
		for _, said := range [...]struct{ key, value string }{
			{"ca", t.CA}, {"certificate", t.Certificate}, {"key", t.Key}, {"server_name", t.ServerName},
		} {
			if said.value != "" {
				wrong = append(wrong, &SecurityError{"tls." + said.key, said.value, "security.tls.enabled: true, without which it means nothing"})
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
			wrong = append(wrong, &SecurityError{"tls.ca", t.CA, "a PEM file that can be read: " + err.Error()})
		case !config.RootCAs.AppendCertsFromPEM(content):
			wrong = append(wrong, &SecurityError{"tls.ca", t.CA, "a PEM file with a certificate"})
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
		wrong = append(wrong, &SecurityError{"tls.certificate", t.Certificate, "its private key in security.tls.key"})
	case t.Key != "":
		wrong = append(wrong, &SecurityError{"tls.key", t.Key, "its certificate in security.tls.certificate"})
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return config, nil
}

// pair reads our certificate and its key.
func (t TLS) pair() (tls.Certificate, *SecurityError) {
	certificate, err := load(t.Certificate)
	if err != nil {
		return tls.Certificate{}, &SecurityError{"tls.certificate", t.Certificate, "a PEM file that can be read: " + err.Error()}
	}
	if block, _ := pem.Decode(certificate); block == nil {
		return tls.Certificate{}, &SecurityError{"tls.certificate", t.Certificate, "a PEM file with a certificate"}
	}
	key, err := load(t.Key)
	if err != nil {
		return tls.Certificate{}, &SecurityError{"tls.key", t.Key, "a PEM file that can be read: " + err.Error()}
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, &SecurityError{"tls.key", t.Key, "the private key, PEM and not encrypted, of " + t.Certificate + ": " + err.Error()}
	}
	return pair, nil
}

// mechanism is nil if there is none, or something is wrong.
func (s SASL) mechanism() (sasl.Mechanism, []*SecurityError) {
	var wrong []*SecurityError
	bad := func(key, value, want string) { wrong = append(wrong, &SecurityError{"sasl." + key, value, want}) }
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
		bad("password_file", "not set", "a file with the password, unless the environment has it")
	case s.PasswordFile != "" && password != "":
		bad("password_file", s.PasswordFile, "nothing, as the environment has a password")
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
		if strings.ContainsRune(s.Username+password, 0) { // which separates the two
			return nil, []*SecurityError{{"sasl.username", s.Username, "no zero byte in it or in the password"}}
		}
		return plainly{s.Username, NewSecret(password)}, nil
	}
	algorithm := scram.SHA256
	if s.Mechanism == mechanismScram512 {
		algorithm = scram.SHA512
	}
	mechanism, err := scram.Mechanism(algorithm, s.Username, password)
	if err != nil { // has the password in it
		return nil, []*SecurityError{{"sasl.username", s.Username, "letters, there and in the password, that SCRAM allows (RFC 4013)"}}
	}
	return mechanism, nil
}

// plainly is kafka-go's mechanism PLAIN, which is not made before it is used: it shows its password to all that print it.
type plainly struct {
	username string
	password Secret
}

func (p plainly) Name() string { return mechanismPlain }

func (p plainly) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	return plain.Mechanism{Username: p.username, Password: p.password.reveal()}.Start(ctx)
}

// load reads a file of at most a megabyte, which no certificate and no password comes near. Its errors leave out the
// name, which goes before them.
func load(name string) ([]byte, error) {
	const most = 1 << 20
	content, err := func() ([]byte, error) {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return io.ReadAll(io.LimitReader(file, most+1))
	}()
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if err == nil && len(content) > most {
		err = errors.New("it is over 1 MiB")
	}
	return content, err
}
