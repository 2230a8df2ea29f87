package schemas

// Key documents one key of the configuration, beside the code that it sets. docs/configuration.md is made of these.
type Key struct {
	Name    string // relative to the keys of that code, as in `stop.patience`
	Meaning string // Markdown, one line: what the key does, its values, and what its zero value means
}
