package option

// Key documents one key of the configuration. Each package documents its own keys, and docs/configuration.md is made of
// them.
type Key struct {
	Name    string // relative to the package's own keys, as in `stop.patience`
	Meaning string // Markdown, one line: what the key does, its values, and its zero value
}
