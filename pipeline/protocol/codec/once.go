package codec

import (
	"bytes"
	"sync"

	"github.com/stagewise/stagewise/schemas/wire"
)

// rememberedBytes bounds the JSON whose values a codec remembers: those that were asked for last, of up to twice as
// many bytes. Decoded, JSON may take fifty times its length.
const rememberedBytes = 512 << 10

// rememberedMessage bounds what one message takes of these.
const rememberedMessage = rememberedBytes / 8

// remembered has what messages decoded to, by their keys. Roles read the ledger several times a run, and each time the
// plans and the ends since it was written: of a chain of short updates, to decode them again took a fifth of the
// processor time. The zero value is empty. It is safe for concurrent use.
type remembered struct {
	mutex           sync.Mutex
	latest, earlier map[string]decoded
	bytes           int // of latest
}

// decoded is what a message decoded to.
type decoded struct {
	kind    wire.Kind
	content []byte
	value   any
}

// find returns what a message of that kind, key and content decoded to, if it is remembered.
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

// remember adds what a message decoded to, unless it is too long. When there are too many, those are forgotten that
// nobody has asked for since the last time.
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
