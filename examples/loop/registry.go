package main

import (
	"context"
	"net/http"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// runRegistry is a schema registry at an address, with the interface of Confluent's. It keeps schemas in memory.
func runRegistry(address string) error {
	return http.ListenAndServe(address, srfake.NewRegistry().Handler())
}

// schema is what happened, in Avro.
const schema = `{"type": "record", "name": "Outcome", "fields": [{"name": "kind", "type": "string"}]}`

// outcomes encodes what happened, as Confluent's serializers do: a zero byte, the number of the schema in the registry, and the record.
type outcomes struct {
	schema *avro.Schema
	id     int
}

// register registers the schema of the topic's values at the registry with this URL.
func register(ctx context.Context, url string) (*outcomes, error) {
	client, err := sr.NewClient(sr.URLs(url))
	if err != nil {
		return nil, err
	}
	registered, err := client.CreateSchema(ctx, topic+"-value", sr.Schema{Schema: schema, Type: sr.TypeAvro})
	if err != nil {
		return nil, err
	}
	parsed, err := avro.Parse(schema)
	return &outcomes{parsed, registered.ID}, err
}

// encode returns the value of a message that says what a customer did.
func (o *outcomes) encode(kind string) ([]byte, error) {
	record, err := o.schema.Encode(map[string]any{"kind": kind})
	if err != nil {
		return nil, err
	}
	value, err := new(sr.ConfluentHeader).AppendEncode(nil, o.id, nil)
	return append(value, record...), err
}
