package archive

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// deltaSchema is the schema of the tables of the tests.
const deltaSchema = `{"type":"struct","fields":[{"name":"group","type":"integer"},{"name":"offset","type":"long"},{"name":"word","type":"string"}]}`

func deltaLogName(root string, version int, end string) string {
	return filepath.Join(root, "_delta_log", fmt.Sprintf("%020d.%s", version, end))
}

// checkpointRow is a row of a checkpoint.
type checkpointRow struct {
	Txn *struct {
		Version int64 `parquet:"version"`
	} `parquet:"txn,optional"`
	Add *struct {
		Path   string             `parquet:"path,optional"`
		Values map[string]*string `json:"partitionValues" parquet:"partitionValues,optional"`
		Parsed struct {
			Rows int64 `parquet:"numRecords"`
		} `parquet:"stats_parsed,optional"`
	} `parquet:"add,optional"`
	Meta *struct {
		Schema        string            `json:"schemaString" parquet:"schemaString,optional"`
		Partitions    []string          `json:"partitionColumns" parquet:"partitionColumns,list,optional"`
		Configuration map[string]string `parquet:"configuration,optional"`
	} `json:"metaData" parquet:"metaData,optional"`
	Protocol *struct {
		Version  int32    `json:"minReaderVersion" parquet:"minReaderVersion,optional"`
		Features []string `json:"readerFeatures" parquet:"readerFeatures,list,optional"`
	} `parquet:"protocol,optional"`
}

// inCheckpoint returns actions as a checkpoint has them.
func inCheckpoint(t *testing.T, actions []any) (rows []checkpointRow) {
	t.Helper()
	for _, a := range actions {
		var row checkpointRow
		text, err := json.Marshal(a)
		if err == nil {
			err = json.Unmarshal(text, &row)
		}
		arrowtest.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

// actionsOf returns the actions at the start of a table.
func actionsOf(p deltaProtocol, m deltaMeta) []any {
	m.Schema, m.Format.Provider = deltaSchema, "parquet"
	return []any{map[string]any{"protocol": map[string]any{"minReaderVersion": p.Version, "readerFeatures": p.Features}},
		map[string]any{"metaData": map[string]any{"schemaString": m.Schema, "partitionColumns": m.Partitions, "format": map[string]any{"provider": "parquet"},
			"configuration": m.Configuration}}}
}

// Random tables have the rows of their log at each version, from commits and from checkpoints in one or several parts.
func TestDelta(t *testing.T) {
	for seed := range uint64(10) {
		random, root := rand.New(rand.NewPCG(seed, 1)), t.TempDir()
		files, rows, want, offset, first := map[string]any{}, map[string][]int64{}, [][]int64{}, int64(0), 0
		meta := deltaMeta{Schema: deltaSchema, Partitions: []string{"group"}}
		for version := range 12 {
			actions := []any{map[string]any{"commitInfo": map[string]any{"timestamp": clock(version)}}}
			if version == 0 {
				actions = append(actions, actionsOf(deltaProtocol{Version: 1}, meta)...)
			}
			for _, path := range slices.Sorted(maps.Keys(files)) {
				if random.IntN(4) == 0 {
					actions = append(actions, map[string]any{"remove": map[string]any{"path": path}})
					delete(files, path)
				}
			}
			for range random.IntN(3) {
				group := fmt.Sprint(random.IntN(3))
				name := fmt.Sprintf("group=%s/a %d.parquet", group, random.Uint32())
				path := "group=" + group + "/a%20" + name[len("group=0/a "):]
				var content []row
				for range 1 + random.IntN(4) {
					content, rows[path] = append(content, row{Offset: offset}), append(rows[path], offset)
					offset++
				}
				writeParquet(t, filepath.Join(root, name), content)
				files[path] = map[string]any{"add": map[string]any{"path": path, "partitionValues": map[string]any{"group": group}}}
				actions = append(actions, files[path])
			}
			writeJSON(t, deltaLogName(root, version, "json"), actions...)
			live := []int64{}
			for path := range files {
				live = append(live, rows[path]...)
			}
			slices.Sort(live)
			want = append(want, live)
			if version > 0 && random.IntN(4) == 0 {
				all := actionsOf(deltaProtocol{Version: 1}, meta)
				for _, path := range slices.Sorted(maps.Keys(files)) {
					all = append(all, files[path])
				}
				rows := inCheckpoint(t, all)
				if half := len(rows) / 2; random.IntN(2) == 0 {
					writeParquet(t, deltaLogName(root, version, "checkpoint.0000000001.0000000002.parquet"), rows[:half])
					writeParquet(t, deltaLogName(root, version, "checkpoint.0000000002.0000000002.parquet"), rows[half:])
				} else {
					writeParquet(t, deltaLogName(root, version, "checkpoint.parquet"), rows)
				}
				if random.IntN(2) == 0 { // the log before is cleaned up
					for ; first < version; first++ {
						arrowtest.NoError(t, os.Remove(deltaLogName(root, first, "json")))
					}
				}
			} else if random.IntN(4) == 0 { // a checkpoint without its second part
				writeParquet(t, deltaLogName(root, version, "checkpoint.0000000001.0000000002.parquet"), inCheckpoint(t, actionsOf(deltaProtocol{Version: 9}, meta)))
			}
		}
		expectStates(t, "delta", root, first, want, func(state int) string { return fmt.Sprint(state) })
		if first > 0 {
			expectRefused(t, "delta", root, snapshotName{ID: "0"}, "_delta_log has no commit 0, which version 0 needs")
		}
		all, err := live(t, "delta", root, snapshotName{})
		for _, f := range all {
			group := filepath.Base(filepath.Dir(f.Path))
			if v := f.Values; len(v) != 1 || group != "group="+v[0].Text || !v[0].IsWhole || group != fmt.Sprint("group=", v[0].Whole) || v[0].Null {
				t.Errorf("%+v, %v", f, err)
			}
		}
	}
}

// Tables that have more than is supported are refused by name.
func TestDeltaRefuses(t *testing.T) {
	for want, actions := range map[string][]any{
		`a table with the feature "catalogManaged"`:       actionsOf(deltaProtocol{3, []string{"deletionVectors", "catalogManaged"}}, deltaMeta{}),
		"a table for readers of version 4":                actionsOf(deltaProtocol{Version: 4}, deltaMeta{}),
		"a table that maps columns by name":               actionsOf(deltaProtocol{Version: 2}, deltaMeta{Configuration: texts{"delta.columnMapping.mode": new("name")}}),
		"00000000000000000000.json: line 1: json: cannot": {map[string]any{"add": 7}},
		"a deletion vector says": append(actionsOf(deltaProtocol{3, []string{"deletionVectors"}}, deltaMeta{}),
			map[string]any{"add": map[string]any{"path": "a", "deletionVector": map[string]any{"storageType": "u", "pathOrInlineDv": "b"}}}),
		"parsing \"x\": invalid syntax": append(actionsOf(deltaProtocol{Version: 1}, deltaMeta{Partitions: []string{"group"}}),
			map[string]any{"add": map[string]any{"path": "a", "partitionValues": map[string]any{"group": "x"}}}),
		"unexpected end of JSON input": {},
	} {
		root := t.TempDir()
		writeJSON(t, deltaLogName(root, 0, "json"), actions...)
		expectRefused(t, "delta", root, snapshotName{}, want)
	}
	// A file whose deletion vector was replaced, and that was rewritten without one, is the rewritten file, in any order of actions.
	root, vector := t.TempDir(), map[string]any{"storageType": "u", "pathOrInlineDv": "b"}
	writeJSON(t, deltaLogName(root, 0, "json"), append(actionsOf(deltaProtocol{Version: 1}, deltaMeta{}), map[string]any{"add": map[string]any{"path": "a"}},
		map[string]any{"commitInfo": map[string]any{"operation": "WRITE"}})...)
	writeJSON(t, deltaLogName(root, 1, "json"), map[string]any{"add": map[string]any{"path": "a", "deletionVector": vector}},
		map[string]any{"remove": map[string]any{"path": "a"}})
	writeJSON(t, deltaLogName(root, 2, "json"), map[string]any{"add": map[string]any{"path": "b", "partitionValues": map[string]any{"group": ""}}},
		map[string]any{"remove": map[string]any{"path": "a", "deletionVector": vector}})
	files, err := live(t, "delta", root, snapshotName{})
	if err != nil || len(files) != 1 || files[0].Path != root+"/b" {
		t.Error(files, err)
	}
	expectRefused(t, "delta", root, snapshotName{ID: "1"}, "a deletion vector")
	expectRefused(t, "delta", root, snapshotName{AsOf: states("", 0)[0].AsOf.AddDate(90, 0, 0).UTC()}, "a commit without a time")
}
