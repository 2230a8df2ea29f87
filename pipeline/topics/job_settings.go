package topics

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Settings returns digests of the job's settings on which the versions of a chain depend, by key in order. It leaves out
// zero values, files, and what processes may have differently.
func (j Job) Settings() (list []schemas.Setting) {
	all := map[string]string{}
	addSettings(all, "examples.", reflect.ValueOf(j.Examples))
	addSettings(all, "prepare.", reflect.ValueOf(j.Prepare))
	addSettings(all, "retrain.", reflect.ValueOf(j.Retrain))
	for key, value := range map[string]any{"stages": j.Stages, "threshold": j.Threshold, "intercept": j.Intercept, "seed": j.Seed,
		"on_bad_message": j.OnBadMessage, "segment": j.Segment, "group": j.Group, "arithmetic": j.Arithmetic, "keep": j.Keep} {
		addSetting(all, key, reflect.ValueOf(value))
	}
	maps.DeleteFunc(all, func(key, _ string) bool {
		return strings.HasPrefix(key, "examples.registry.") || slices.Contains([]string{"examples.train", "examples.test", "examples.schema",
			"examples.partitions"}, key)
	})
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, schemas.Setting{Key: key, Digest: all[key]})
	}
	return list
}

// addSettings adds the fields of a struct, with a prefix before their names.
func addSettings(all map[string]string, prefix string, of reflect.Value) {
	for i := range of.NumField() {
		field := of.Type().Field(i)
		switch {
		case !field.IsExported(), option.KeyOf(field) == "-":
		case field.Anonymous:
			addSettings(all, prefix, of.Field(i))
		default:
			addSetting(all, prefix+option.KeyOf(field), of.Field(i))
		}
	}
}

// addSetting adds a value: a struct by its fields, unless it is one value in the configuration.
func addSetting(all map[string]string, key string, of reflect.Value) {
	_, whole := of.Interface().(json.Marshaler)
	switch {
	case of.Kind() == reflect.Struct && !whole:
		addSettings(all, key+".", of)
	case !of.IsZero() && !(of.Kind() == reflect.Slice && of.Len() == 0):
		all[key] = wire.DigestJSON(of.Interface()).Short()
	}
}
