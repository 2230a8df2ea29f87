package pipeline

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/source"
)

// BenchmarkFollow ingests a topic on the embedded broker, a row of 20 fields in each message: rows for each second of a core, broker
// included, which other work on the machine does not change.
func BenchmarkFollow(b *testing.B) {
	const fields, messages = 20, 100_000
	avsc, proto := `{"type":"record","name":"E","fields":[{"name":"kind","type":"string"}`, `syntax = "proto3"; message E { string kind = 1;`
	var columns []string
	for i := 1; i < fields; i++ {
		name := "field" + strconv.Itoa(i)
		columns = append(columns, name)
		avsc += `,{"name":"` + name + `","type":["null","double"]}`
		proto += fmt.Sprintf(" optional double %s = %d;", name, i+1)
	}
	registry := srfake.New()
	defer registry.Close()
	registry.SeedSchema("avro", 1, 1, sr.Schema{Schema: avsc + "]}"})
	registry.SeedSchema("proto", 1, 2, sr.Schema{Schema: proto + "}", Type: sr.TypeProtobuf})
	schema := avro.MustParse(avsc + "]}")
	for name, encode := range map[string]func(i int) []byte{
		"avro": func(i int) []byte {
			value := map[string]any{"kind": "k" + strconv.Itoa(i%3)}
			for j, name := range columns {
				value[name] = float64(i*j) / 7
			}
			content, err := schema.Encode(value)
			if err != nil {
				b.Fatal(err)
			}
			return append([]byte{0, 0, 0, 0, 1}, content...)
		},
		"protobuf": func(i int) []byte {
			content := protowire.AppendString(protowire.AppendTag([]byte{0, 0, 0, 0, 2, 0}, 1, protowire.BytesType), "k"+strconv.Itoa(i%3))
			for j := range columns {
				content = protowire.AppendTag(content, protowire.Number(j+2), protowire.Fixed64Type)
				content = protowire.AppendFixed64(content, math.Float64bits(float64(i*j)/7))
			}
			return content
		},
		"json": func(i int) []byte {
			text := strings.Builder{}
			fmt.Fprintf(&text, `{"kind":"k%d"`, i%3)
			for j, name := range columns {
				fmt.Fprintf(&text, `,%q:%.4f`, name, float64(i*j)/7)
			}
			return []byte(text.String() + "}")
		},
	} {
		b.Run(name, func(b *testing.B) {
			log := openEmbedded(b)
			job := newJob(b, rings(10, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
			o := &job.Examples
			o.Train, o.FromTopic, o.Format, o.Partitions, o.BatchRows = nil, "events", name, 1, 1024
			o.Label, o.Columns.Use, o.Missing.Mode = "kind", columns, layout.MissingMean
			if name != "json" {
				o.Registry.URL = registry.URL()
			}
			if err := log.Create(b.Context(), kafkalog.Topic{Name: "events", Partitions: 1}); err != nil {
				b.Fatal(err)
			}
			var batch []kafkalog.Message
			for i := range messages {
				if batch = append(batch, kafkalog.Message{Value: encode(i)}); len(batch) == 1000 {
					if _, err := log.Append(b.Context(), "events", 0, batch...); err != nil {
						b.Fatal(err)
					}
					batch = nil
				}
			}
			var before, after syscall.Rusage
			for b.Loop() {
				job.Name += "x"
				if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
					b.Fatal(err)
				}
				if err := source.Follow(b.Context(), log, job, true, event.Ignore{}); err != nil {
					b.Fatal(err)
				}
				if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
					b.Fatal(err)
				}
			}
			seconds := float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano()) / 1e9
			b.ReportMetric(messages/seconds, "rows/cpu-s")
		})
	}
}
