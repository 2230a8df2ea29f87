package protocol

import (
	"bytes"
	"sync"

	"github.com/stagewise/stagewise/schemas/wire"
)

// rememberedBytes limits the JSON whose decoded values a codec caches: the most recently used, of up to twice as many
// bytes. Decoded JSON may take fifty times its length.
const rememberedBytes = 512 << 10

// rememberedMessage is the largest message that is cached.
const rememberedMessage = rememberedBytes / 8

// remembered is a cache of decoded messages by key. Roles read the ledger several times a run, with the plans and ends
// written after it: in a chain of short updates, decoding them each time took a fifth of the processor time. The zero
// value is an empty cache. It is safe for concurrent use.
type remembered struct {
	mutex           sync.Mutex
	latest, earlier map[string]decoded
	bytes           int // total length of latest
}

// decoded is a decoded message.
type decoded struct {
	kind    wire.Kind
	content []byte
	value   any
}

// find returns the cached value of a message with the same kind, key and content.
func (r *remembered) find(m wire.Message) (any, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, known := range []map[string]decoded{r.latest, r.earlier} {
		if d, ok := known[m.Key]; ok && d.kind == m.Kind() && bytes.Equal(d.content, m.Value) {
			r.add(m, d)
			return d.value, true
		}
	}
	return nil, false
}

// remember caches the decoded value of a message, unless the message is too long. When the cache is full, it evicts the
// values not used since the last eviction.
func (r *remembered) remember(m wire.Message, value any) {
	if len(m.Value) > rememberedMessage {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.add(m, decoded{m.Kind(), m.Value, value})
}

func (r *remembered) add(m wire.Message, d decoded) {
	if _, known := r.latest[m.Key]; !known {
		if r.latest == nil || r.bytes+len(d.content) > rememberedBytes {
			r.latest, r.earlier, r.bytes = map[string]decoded{}, r.latest, 0
		}
		r.bytes += len(d.content)
	}
	r.latest[m.Key] = d
}
