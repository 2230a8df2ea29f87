package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/value"
)

// Options are the keys under `examples.registry` of the configuration. The zero value means no registry.
type Options struct {
	// URL is the URL of the registry, such as https://registry:8081; "": there is none.
	URL string `yaml:"url"`
	// User is the user name, with the password in the first line of PasswordFile; "": none.
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file" path:"file"`
	// CA is a file with the CA certificates that sign the registry's; "": the system's.
	CA string `yaml:"ca" path:"file"`
	// Cert and Key are files with the client certificate and its key, for registries that require one. All files are PEM.
	Cert string `yaml:"cert" path:"file"`
	Key  string `yaml:"key" path:"file"`
}

// Check finds invalid values. It does not open the files.
func (o Options) Check() (problems []option.Problem) {
	wrong := func(key, shown, want string) {
		problems = append(problems, option.Problem{Key: "registry." + key, Value: value.Quote(shown), Want: want})
	}
	if o.URL == "" {
		for _, said := range []struct{ key, value string }{
			{"user", o.User}, {"password_file", o.PasswordFile}, {"ca", o.CA}, {"cert", o.Cert}, {"key", o.Key},
		} {
			if said.value != "" {
				wrong(said.key, said.value, "examples.registry.url with it")
			}
		}
		return problems
	}
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		wrong("url", o.URL, "the address of a schema registry, such as https://registry:8081")
	case u.User != nil:
		wrong("url", u.Redacted(), "no user in it: set examples.registry.user and examples.registry.password_file")
	case u.Scheme == "http" && (o.CA != "" || o.Cert != ""):
		wrong("url", o.URL, "https, as certificates are set")
	}
	if (o.User == "") != (o.PasswordFile == "") {
		wrong("user", o.User, "a user and examples.registry.password_file, or neither")
	}
	if (o.Cert == "") != (o.Key == "") {
		wrong("cert", o.Cert, "a certificate and examples.registry.key, or neither")
	}
	return problems
}

// password reads the password.
func (o Options) password() (string, error) {
	content, err := os.ReadFile(o.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("examples.registry.password_file: %w", err)
	}
	password, _, _ := strings.Cut(string(content), "\n")
	if password = strings.TrimSuffix(password, "\r"); password == "" {
		return "", fmt.Errorf("examples.registry.password_file: %s: expected the password in the first line", o.PasswordFile)
	}
	return password, nil
}

// tls reads the certificates.
func (o Options) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		content, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("examples.registry.ca: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, errors.New("examples.registry.ca: expected a PEM file with a certificate")
		}
	}
	if o.Cert != "" {
		own, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("examples.registry.cert: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
