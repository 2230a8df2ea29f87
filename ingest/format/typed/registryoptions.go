package typed

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/stagewise/stagewise/internal/option"
)

// Registry are the keys under `examples.registry` of the configuration: [RegistryKeys] says what each means. The zero value means no
// registry.
type Registry struct {
	URL          string `yaml:"url"`
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file" path:"file"`
	CA           string `yaml:"ca" path:"file"`
	Cert         string `yaml:"cert" path:"file"`
	Key          string `yaml:"key" path:"file"`
}

// RegistryKeys returns the keys of a registry below a key under `examples`. meaning describes the URL, which requires the key needs; why
// is the reason.
func RegistryKeys(under, meaning, needs, why string) []option.Key {
	of := func(name string) string { return under + "." + name }
	beside := func(other, want string) map[string]string {
		return map[string]string{of("url"): "examples." + of("url") + " with it", of(other): want + "examples." + of(other) + ", or neither"}
	}
	url := map[string]string{of("url"): "examples." + of("url") + " with it"}
	keys := []option.Key{
		{Name: of("url"), Rule: isURL(), Needs: map[string]string{needs: why}, Meaning: meaning},
		{Name: of("user"), Needs: beside("password_file", "a user and "), Meaning: "user name at the registry; none: no authentication"},
		{Name: of("password_file"), Needs: beside("user", "a password and "),
			Meaning: "file whose first line is the password of `registry.user`"},
		{Name: of("ca"), Needs: url,
			Meaning: "PEM file with the CA certificates that sign the registry's certificate; none: the CAs of the system"},
		{Name: of("cert"), Needs: beside("key", "a certificate and "),
			Meaning: "PEM file with the client certificate, for registries that require one"},
		{Name: of("key"), Needs: beside("cert", "a key and "), Meaning: "PEM file with the private key of `registry.cert`"},
	}
	for i := range keys[1:] {
		if k := &keys[i+1]; under != "registry" {
			k.Meaning = "as `registry" + strings.TrimPrefix(k.Name, under) + "`"
		}
	}
	return keys
}

// isURL allows the URL of a registry.
func isURL() option.Rule {
	return option.Rule{Want: "the address of a schema registry, such as https://registry:8081, without a user: examples.registry.user and " +
		"examples.registry.password_file are for those", Holds: func(v any) bool {
		u, err := url.Parse(v.(string))
		return v == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
	}}
}

// password reads the password.
func (o Registry) password() (string, error) {
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
func (o Registry) tls() (*tls.Config, error) {
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
