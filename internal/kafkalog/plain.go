package kafkalog

import (
	"bytes"
	"fmt"

	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
)

// plain decodes the messages of an uncompressed batch from an offset on. A message that is more than half of a batch
// shares its bytes. Others are copied, since each would keep the whole batch in memory.
func plain(e recordbatch.Batch, partition int, from int64) ([]Message, error) {
	var messages []Message
	d := recordbatch.Decoder{Rest: e[recordbatch.HeaderBytes:], OK: true}
	for range e.Int32(recordbatch.AtCount) {
		r := recordbatch.Decoder{Rest: d.Bytes(), OK: true}
		r.Take(1) // attributes, which are unused
		milliseconds := e.Int64(recordbatch.AtFirstTime) + r.Varint()
		m := Message{Partition: partition, Offset: e.Base() + r.Varint(), Time: e.Time(milliseconds), Key: r.Bytes(), Value: r.Bytes()}
		for headers := r.Varint(); headers > 0 && r.OK; headers-- {
			m.Headers = append(m.Headers, Header{string(r.Bytes()), r.Bytes()})
		}
		if !d.OK || !r.OK {
			return nil, fmt.Errorf("the records of the batch at offset %d are damaged", e.Base())
		}
		if m.Offset < from {
			continue
		}
		if len(m.Key)+len(m.Value) <= len(e)/2 {
			m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
			for i, h := range m.Headers {
				m.Headers[i].Value = bytes.Clone(h.Value)
			}
		}
		messages = append(messages, m)
	}
	return messages, nil
}
