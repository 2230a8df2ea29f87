package kafkalog

import (
	"fmt"
	"io"
	"sync"

	"github.com/segmentio/kafka-go/compress"
)

// batchBytes is the most that a record batch may be once it is decompressed: brokers take batches of 1 MiB as they come
// (message.max.bytes), and what examples are made of does not shrink to a 256th.
const batchBytes = 256 << 20

// BatchError says that a record batch claims to be larger than any that is honest. No broker refuses it: they limit what it
// is when it is compressed, and check the records one after the other.
type BatchError struct{ Most int }

func (e *BatchError) Error() string {
	return fmt.Sprintf("a record batch of more than %d bytes once it is decompressed", e.Most)
}

// bounding is done once a process: kafka-go decompresses a batch whole, into memory, before any of it is seen here, and its
// table of codecs, the one place to say how much is enough, is of the process.
var bounding sync.Once

func boundCompression() {
	bounding.Do(func() {
		for i, codec := range compress.Codecs {
			if codec != nil {
				compress.Codecs[i] = boundedCodec{codec}
			}
		}
	})
}

// boundedCodec decompresses so much and no more: a megabyte of zstd can be thirty thousand.
type boundedCodec struct{ compress.Codec }

func (c boundedCodec) NewReader(r io.Reader) io.ReadCloser {
	return &boundedReader{c.Codec.NewReader(r), batchBytes}
}

type boundedReader struct {
	io.ReadCloser
	left int
}

func (r *boundedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.left -= n; r.left < 0 {
		return 0, &BatchError{batchBytes}
	}
	return n, err
}
