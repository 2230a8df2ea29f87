package recordbatch

import (
	"fmt"
	"io"
	"sync"

	"github.com/segmentio/kafka-go/compress"
)

// maxBatchBytes limits a record batch after decompression. Brokers accept batches of 1 MiB by default (message.max.bytes), and
// messages of examples do not compress by a factor of 256.
const maxBatchBytes = 256 << 20

// BatchError is a record batch that decompresses to more than Limit bytes. Brokers do not reject such a batch: they limit
// the compressed size, and validate records one by one.
type BatchError struct {
	// Limit is in bytes.
	Limit int
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("a record batch decompresses to more than %d bytes", e.Limit)
}

// bounding makes BoundCompression run once. kafka-go decompresses a whole batch into memory before it returns, and the
// only way to limit that is its process-wide table of codecs.
var bounding sync.Once

// BoundCompression makes kafka-go reject, process-wide, batches that decompress to more than maxBatchBytes.
func BoundCompression() {
	bounding.Do(func() {
		for i, codec := range compress.Codecs {
			if codec != nil {
				compress.Codecs[i] = boundedCodec{codec}
			}
		}
	})
}

// boundedCodec stops after maxBatchBytes: one megabyte of zstd can decompress to thirty thousand.
type boundedCodec struct{ compress.Codec }

func (c boundedCodec) NewReader(r io.Reader) io.ReadCloser {
	return &boundedReader{c.Codec.NewReader(r), maxBatchBytes}
}

type boundedReader struct {
	io.ReadCloser
	left int
}

func (r *boundedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.left -= n; r.left < 0 {
		return 0, &BatchError{maxBatchBytes}
	}
	return n, err
}
