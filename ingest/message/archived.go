package message

import "strings"

// Form is how an archive encodes the value of a message, if not as on the topic.
type Form struct {
	Format string // json or avro
	Within string // the member that is the value; "": the whole
	Schema string // of Avro
}

// archived begins the schema ID of a value in a Form, in place of an ID in a registry.
const archived = "archive\n"

// ID returns the form as a schema ID of a message.
func (f Form) ID() string { return archived + f.Format + "\n" + f.Within + "\n" + f.Schema }

// FormOf returns the form in the schema ID of a message. ok is false if the value is as on the topic.
func FormOf(schemaID string) (f Form, ok bool) {
	text, ok := strings.CutPrefix(schemaID, archived)
	if ok {
		f.Format, text, _ = strings.Cut(text, "\n")
		f.Within, f.Schema, _ = strings.Cut(text, "\n")
	}
	return f, ok
}

// Within returns the member of a value with a name, or the value itself if the name is "". A null or missing member is a null.
func Within[V Nested[V]](v V, name string) (V, error) {
	if name == "" {
		return v, nil
	}
	at := Step{Index: -1}
	at.step(name)
	var member V
	if v.Kind() != Object {
		return v, nil
	}
	err := v.Parts(&at, func(_ *Step, part V) error {
		member = part
		return nil
	})
	return member, err
}
