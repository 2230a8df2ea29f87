package secure

// Key documents one key under `security` of the configuration, beside the fields of [Options] that it sets.
type Key struct {
	Name    string // relative to `security`, as in `tls.ca`
	Meaning string // Markdown, one line: what the key does, its values, and what its zero value means
}

// Keys documents the keys under `security`.
func Keys() []Key {
	return []Key{
		{"tls.enabled", "connect to the brokers over TLS. See [secured clusters](security.md)"},
		{"tls.ca", "PEM file with the CA certificates that sign the brokers' certificates. None: the CAs of the system"},
		{"tls.certificate", "PEM file with the client certificate, for brokers that require one; needs `security.tls.key`"},
		{"tls.key", "PEM file with the private key of the client certificate, not encrypted"},
		{"tls.server_name", "the name in the brokers' certificates. None: the host of each broker's address"},
		{"sasl.mechanism", "mechanism: `" + mechanismPlain + "`, `" + mechanismScram256 + "` or `" + mechanismScram512 + "`. None: no login"},
		{"sasl.username", "the user name"},
		{"sasl.password", "the password, only from the environment variable `STAGEWISE_SECURITY_SASL_PASSWORD`, which is not parsed " +
			"as YAML"},
		{"sasl.password_file", "file whose first line is the password. Set this or the environment variable"},
	}
}
