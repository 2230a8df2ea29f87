package wire

import (
	"fmt"
	"strconv"

	"github.com/stagewise/stagewise/schemas/stream"
)

// A document is JSON that may exceed the size of a message. Like a record, it is split into numbered chunks, each with the digest of
// the whole document. Plans, manifests, reports and windows are documents.

// DocumentChunk is the maximum length of a document's chunk, in bytes. A message has headers too.
const DocumentChunk = MaxMessage - 16<<10

// MaxDocument is the maximum length of a document, in bytes. A plan with 100,000 sources has 30 MB. Decoded JSON may take fifty times
// its length.
const MaxDocument = 64 << 20

// MessagesOf encodes a value as the messages of a document. Their keys contain the digest, so that compaction never mixes
// the chunks of two documents. It returns an error if the document is too long.
func MessagesOf(kind Kind, run string, value any) ([]Message, error) {
	content := JSON(value)
	if len(content) > MaxDocument {
		return nil, fmt.Errorf("the %s has %d bytes of JSON, expected at most %d", kind, len(content), MaxDocument)
	}
	digest, chunks := DigestOf(content), (len(content)-1)/DocumentChunk+1
	messages := make([]Message, chunks)
	for i := range messages {
		chunk := content[i*DocumentChunk : min((i+1)*DocumentChunk, len(content))]
		messages[i] = Message{
			Key: fmt.Sprintf("%s/%s/%s/%d", kind, run, digest.Short(), i), Value: chunk,
			Headers: append(Identity{Kind: kind, Run: run}.Headers(),
				Header{"chunk", strconv.Itoa(i)}, Header{"chunks", strconv.Itoa(chunks)}, Header{"digest", string(digest)}),
		}
	}
	return messages, nil
}

// Documents assembles documents from their messages. The zero value is ready to use. See [Collector] for its memory.
type Documents struct{ chunks Collector[float32] }

// Add adds one message. When the message completes a document, Add returns a message with the complete content, for
// [schemas.DecodeJSON], and true. An error wraps [ErrDamaged].
func (d *Documents) Add(m Message) (whole Message, ok bool, err error) {
	chunks, err := d.chunks.collect(m)
	if err != nil || chunks == nil {
		return Message{}, false, err
	}
	whole = m
	if chunks.chunks > 1 {
		whole.Value = nil
		for i := range chunks.chunks {
			whole.Value = append(whole.Value, chunks.values[i]...)
		}
	}
	if got := DigestOf(whole.Value); got != chunks.digest {
		return Message{}, false, fmt.Errorf("%w: document %s has digest %s, its header says %s", ErrDamaged, stream.Quote(m.Key),
			got.Short(), stream.Quote(string(chunks.digest)))
	}
	return whole, true, nil
}
