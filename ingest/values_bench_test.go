package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
)

// wide are rows of 20 numbers, words and flags, like typical events, in each format.
type wide struct {
	json, avro, protobuf []byte
}

const wideFields = 20

func wideSchemas() (avsc, proto string, columns []string) {
	var a, p strings.Builder
	a.WriteString(`{"type":"record","name":"Event","fields":[{"name":"kind","type":"string"}`)
	p.WriteString("syntax = \"proto3\"; message Event { string kind = 1;")
	for i := 1; i < wideFields; i++ {
		name := "field" + strconv.Itoa(i)
		columns = append(columns, name)
		a.WriteString(`,{"name":"` + name + `","type":` + []string{`"double"`, `["null","long"]`, `"boolean"`, `"float"`}[i%4] + `}`)
		fmt.Fprintf(&p, " %s %s = %d;", []string{"double", "optional int64", "bool", "float"}[i%4], name, i+1)
	}
	return a.String() + "]}", p.String() + " }", columns
}

func wideRows(b *testing.B, n int) (rows []wide) {
	avsc, _, columns := wideSchemas()
	schema, random := avro.MustParse(avsc), rand.New(rand.NewPCG(1, 2))
	for range n {
		kind := []string{"tall", "wide", "deep"}[random.IntN(3)]
		value, text := map[string]any{"kind": kind}, strings.Builder{}
		fmt.Fprintf(&text, `{"kind":%q`, kind)
		proto := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), kind)
		for i, name := range columns {
			var v any
			switch field := protowire.Number(i + 2); (i + 1) % 4 {
			case 0:
				x := random.NormFloat64()
				v, proto = x, protowire.AppendFixed64(protowire.AppendTag(proto, field, protowire.Fixed64Type), math.Float64bits(x))
			case 1:
				n := random.Int64N(100_000)
				v, proto = n, protowire.AppendVarint(protowire.AppendTag(proto, field, protowire.VarintType), uint64(n))
			case 2:
				is := random.IntN(2) == 0
				v, proto = is, protowire.AppendVarint(protowire.AppendTag(proto, field, protowire.VarintType), protowire.EncodeBool(is))
			case 3:
				x := float32(random.NormFloat64())
				v, proto = x, protowire.AppendFixed32(protowire.AppendTag(proto, field, protowire.Fixed32Type), math.Float32bits(x))
			}
			value[name] = v
			fmt.Fprintf(&text, `,%q:%v`, name, v)
		}
		content := assert.Must(schema.Encode(value))(b)
		rows = append(rows, wide{[]byte(text.String() + "}"), framed(1, content), framed(2, append([]byte{0}, proto...))})
	}
	return rows
}

// cpuSeconds returns the CPU time of the process.
func cpuSeconds(b *testing.B) float64 {
	var used syscall.Rusage
	assert.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// BenchmarkValues converts messages with one row of 20 fields to examples messages: rows per second of CPU time, which
// does not depend on other load.
func BenchmarkValues(b *testing.B) {
	avsc, proto, columns := wideSchemas()
	rows := wideRows(b, 4096)
	for name, value := range map[string]func(wide) []byte{
		"json": func(w wide) []byte { return w.json }, "avro": func(w wide) []byte { return w.avro }, "protobuf": func(w wide) []byte { return w.protobuf },
	} {
		b.Run(name, func(b *testing.B) {
			registry := registered(b, sr.Schema{Schema: avsc}, sr.Schema{Schema: proto, Type: sr.TypeProtobuf})
			v, err := NewValues(ofTopic(name, func(o *Options) {
				o.Label, o.Columns.Use, o.Missing.Mode = "kind", columns, layout.MissingMean
				if name != "json" {
					o.Registry.URL = registry.URL()
				}
			}))
			assert.NoError(b, err)
			b.ReportAllocs()
			began := cpuSeconds(b)
			for i := 0; b.Loop(); i++ {
				_, err := v.Add(b.Context(), TopicMessage{Offset: int64(i), Value: value(rows[i%len(rows)])})
				assert.Need(b, err == nil, "%v", err)
				if v.Full() {
					origin := schemas.Origin{Source: schemas.TopicSource("clicks"), Attempt: "1"}
					_, err := origin.TopicMessage([]schemas.TopicPosition{{Next: 1}}, v.Take(), memory.DefaultAllocator)
					assert.Need(b, err == nil, "%v", err)
				}
			}
			b.ReportMetric(float64(b.N)/(cpuSeconds(b)-began), "rows/cpu-s")
		})
	}
}
