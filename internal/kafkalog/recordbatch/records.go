package recordbatch

import (
	"bytes"
	"encoding/binary"

	"github.com/segmentio/kafka-go/protocol"
)

// Records returns a reader of the records of a compressed batch, or one in an old format.
func (b Batch) Records() (protocol.RecordReader, error) {
	var set protocol.RecordSet
	sent := append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	if _, err := set.ReadFrom(bytes.NewBuffer(sent)); err != nil {
		return nil, err
	}
	if set.Records == nil {
		return protocol.NewRecordReader(), nil
	}
	return set.Records, nil
}

// Take returns kafka-go's pooled pages of a key or value to their pool, after copying the bytes if wanted.
func Take(b protocol.Bytes, wanted bool) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	defer b.Close()
	if !wanted {
		return nil, nil
	}
	return protocol.ReadAll(b)
}
