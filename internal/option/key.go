package option

// Key documents one key of the configuration. Each package documents its own keys, and docs/configuration.md is made of
// them.
type Key struct {
	Name    string // relative to the package's own keys, as in `stop.patience`
	Meaning string // Markdown, one line: what the key does, its values, and its zero value
}

// Under returns keys as they are below another key.
func Under(prefix string, keys []Key) []Key {
	below := make([]Key, len(keys))
	for i, k := range keys {
		k.Name = prefix + "." + k.Name
		below[i] = k
	}
	return below
}
