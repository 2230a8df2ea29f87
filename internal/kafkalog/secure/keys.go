package secure

import (
	"github.com/stagewise/stagewise/internal/option"
)

// Keys documents the keys under `security`.
func Keys() []option.Key {
	return append([]option.Key{
		{Name: "tls.enabled", Meaning: "connect to the brokers over TLS. See [secured clusters](security.md)"},
		{Name: "tls.ca", Meaning: "PEM file with the CA certificates that sign the brokers' certificates. None: the CAs of the system"},
		{Name: "tls.certificate", Meaning: "PEM file with the client certificate, for brokers that require one; needs `security.tls.key`"},
		{Name: "tls.key", Meaning: "PEM file with the private key of the client certificate, not encrypted"},
		{Name: "tls.server_name", Meaning: "the name in the brokers' certificates. None: the host of each broker's address"},
	}, option.Under("sasl", saslKeys())...)
}
