// Package table finds the live files of tables whose logs also name files of earlier states.
package table

import (
	"context"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/ingest/archive/store"
	"github.com/stagewise/stagewise/ingest/input"
)

// Snapshot is a state of a table. The zero value is the current one.
type Snapshot struct {
	ID   int64     // of a snapshot of Iceberg, or a version of Delta Lake; 0: none
	AsOf time.Time // the last state at this time; zero: none
}

// DataFile is a live file of a table.
type DataFile struct {
	Path   string
	Format string // "parquet" or "avro"
	Rows   int64  // with those that are deleted; -1: unknown
	// Values are columns that are not in the file.
	Values []input.Partition
	// Names are the names of columns, at any depth, by the IDs of fields that the file has. Columns without a name were dropped. Nil means
	// that the names in the file apply.
	Names map[int]string
	// deletes returns the numbers of deleted rows. Nil means that there are none.
	deletes func(ctx context.Context) (Deleted, error)
}

// Deleted are the numbers of deleted rows of a file, from 0. Nil means none.
type Deleted map[int64]bool

// Deleted reads the numbers of the rows of a file that are deleted.
func (f DataFile) Deleted(ctx context.Context) (Deleted, error) {
	if f.deletes == nil {
		return nil, nil
	}
	return f.deletes(ctx)
}

// Live returns the live files of the table in a directory, in order of path, by the log of its format: "iceberg" or "delta".
func Live(ctx context.Context, s store.Store, layout, root string, at Snapshot) ([]DataFile, error) {
	return nil, fmt.Errorf("%s: a table of the layout %s can't be read yet", root, layout)
}
