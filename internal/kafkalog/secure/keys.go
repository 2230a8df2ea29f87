package secure

import "github.com/stagewise/stagewise/internal/kafkalog/login"

// Key documents a configuration key under `security`, beside the fields of [Options] that it sets.
type Key struct {
	Name    string // relative to `security`, as in `tls.ca`
	Meaning string // Markdown, one line: the effect of the key, its values, and the meaning of its zero value
}

// Keys documents the keys under `security`.
func Keys() []Key {
	keys := []Key{
		{"tls.enabled", "connect to the brokers over TLS. See [secured clusters](security.md)"},
		{"tls.ca", "PEM file with the CA certificates that sign the brokers' certificates. None: the CAs of the system"},
		{"tls.certificate", "PEM file with the client certificate, for brokers that require one; needs `security.tls.key`"},
		{"tls.key", "PEM file with the private key of the client certificate, not encrypted"},
		{"tls.server_name", "the name in the brokers' certificates. None: the host of each broker's address"},
	}
	for _, k := range login.Keys() {
		keys = append(keys, Key{"sasl." + k.Name, k.Meaning})
	}
	return keys
}
