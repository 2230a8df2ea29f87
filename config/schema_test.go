package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
)

// docs/configuration.schema.json is the generated one. With -update the test writes it.
func TestSchema(t *testing.T) {
	text := arrowtest.Must(json.MarshalIndent(jsonSchema(), "", " "))(t)
	golden(t, "../docs/configuration.schema.json", string(text)+"\n")
}

// The schema accepts every valid configuration, and rejects misspelt keys and values of the wrong type.
func TestSchemaAgreesWithLoad(t *testing.T) {
	text := arrowtest.Must(json.Marshal(jsonSchema()))(t)
	var s jsonschema.Schema
	arrowtest.NoError(t, json.Unmarshal(text, &s))
	schema := arrowtest.Must(s.Resolve(nil))(t)
	validate := func(content []byte) error {
		var value any
		arrowtest.NoError(t, yaml.Unmarshal(content, &value))
		return schema.Validate(value)
	}
	var files []string
	for _, pattern := range []string{"testdata/good/*.yaml", "../examples/*.yaml", "../examples/*/*.yaml"} {
		found := arrowtest.Must(filepath.Glob(pattern))(t)
		files = append(files, found...)
	}
	for _, file := range files {
		content := arrowtest.Must(os.ReadFile(file))(t)
		if strings.TrimSpace(string(content)) == "" {
			continue
		}
		if err := validate(content); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, valid := range []string{
		"name: a", "brokers: a:9092", "metrics: {listen: null}", "give_up: 5m", "memory: 1GiB", "examples: {label: 0, missing: {a: mean}}",
		"stages: [{ridge: auto}]", "stages: [{ridge: 1.0e-4, features: {kind: rff}}]", "threshold: {cost: {fp: 1, fn: 20}}",
		"examples: {train: a.csv, categorical: c}",
	} {
		if err := validate([]byte(valid)); err != nil {
			t.Errorf("%s: %v", valid, err)
		}
	}
	for _, wrong := range []string{
		"nmae: a", "name: [a]", "examples: none", "seed: -1", "intercept: yes please", "segment: 1.5", "stages: {link: softmax}",
		"stages: [{passes: twelve}]", "arithmetic: sloppy", "examples: {lable: 0}", "security: {sasl: {password: hunter2}}",
	} {
		if validate([]byte(wrong)) == nil {
			t.Errorf("%s: the schema accepts it", wrong)
		}
	}
}

// jsonSchema returns the JSON Schema of a configuration file, for editors and other programs: the names of the keys, the types
// of their values, and their meanings. A configuration that does not match is wrong. One that matches may still be wrong,
// because rules between keys are not part of the schema.
func jsonSchema() map[string]any {
	keys := map[string]option.Key{}
	for _, k := range Keys() {
		keys[k.Name] = k
	}
	schema := schemaOf("", reflect.StructField{Type: reflect.TypeFor[Config]()}, keys)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Configuration of stagewise"
	return schema
}

// schemaOf returns the schema of the value of a field. A null is the default of every key.
func schemaOf(key string, field reflect.StructField, keys map[string]option.Key) map[string]any {
	t := behind(field.Type)
	if isList(t) {
		return map[string]any{
			"type": []string{"array", "null"}, "items": schemaOf(join(key, "*"), reflect.StructField{Type: t.Elem()}, keys),
		}
	}
	if isValue(t) {
		schema := valueSchema(t)
		if len(keys[key].Rule.Texts) > 0 {
			schema["enum"] = append([]any{nil}, keys[key].Rule.Texts...)
		}
		if items := schema["items"]; items != nil {
			schema = map[string]any{"anyOf": []any{schema, items}}
		}
		if meaning := keys[key].Meaning; meaning != "" {
			schema["description"] = meaning
		}
		return schema
	}
	properties := map[string]any{}
	for _, f := range keysOf(t) {
		properties[option.KeyOf(f)] = schemaOf(join(key, option.KeyOf(f)), f, keys)
	}
	return map[string]any{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

// valueSchema returns the schema of the values of a type. Types that parse themselves take several types of values, of which
// only they know the rules. A text may be written without quotes, even if it then is a number in YAML.
func valueSchema(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[kafkalog.Secret]():
		return map[string]any{"type": "null"} // it is an error in a file: see errSecret
	case reflect.TypeFor[time.Duration](), reflect.TypeFor[option.Bytes]():
		return map[string]any{"type": []string{"string", "integer", "null"}}
	}
	if _, parses := reflect.New(t).Interface().(interface{ UnmarshalJSON([]byte) error }); parses {
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": []string{"integer", "null"}}
	case reflect.Uint64:
		return map[string]any{"type": []string{"integer", "null"}, "minimum": 0}
	case reflect.Float64:
		return map[string]any{"type": []string{"number", "null"}}
	case reflect.Bool:
		return map[string]any{"type": []string{"boolean", "null"}}
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": valueSchema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": valueSchema(t.Elem())}
	}
	return map[string]any{"type": []string{"string", "number", "boolean", "null"}}
}
