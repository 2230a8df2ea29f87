package option

// Key describes one key of the configuration. Each package has a table of its own keys, from which [Check] and docs/configuration.md are
// made.
type Key struct {
	Name    string // relative to the package's own keys, as in `stop.patience`
	Meaning string // Markdown, one line: what the key does, its values, and its zero value
	Rule    Rule   // what its value must be
	When    string // the key without which its value does not matter; "" means that it always does
	// Needs are keys without which this one has no effect, and Excludes are keys that can't be set with it: what is expected
	// instead, by key. A key with a value, as in `labels: several`, is that value of the key.
	Needs, Excludes map[string]string
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
