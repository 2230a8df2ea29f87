package outcome

import "github.com/cockroachdb/pebble/v2/vfs"

// unsynced is a file system without fsync: its files need not survive a crash, because they are a cache of the topics. A
// store that is written and read within seconds would spend half of the time waiting for the disk.
type unsynced struct{ vfs.FS }

func (u unsynced) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return withoutSync(u.FS.Create(name, category))
}

func (u unsynced) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return withoutSync(u.FS.OpenReadWrite(name, category, opts...))
}

func (u unsynced) OpenDir(name string) (vfs.File, error) { return withoutSync(u.FS.OpenDir(name)) }

func (u unsynced) ReuseForWrite(before, after string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return withoutSync(u.FS.ReuseForWrite(before, after, category))
}

func withoutSync(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }

func (unsyncedFile) SyncData() error { return nil }

func (unsyncedFile) SyncTo(int64) (bool, error) { return true, nil }
