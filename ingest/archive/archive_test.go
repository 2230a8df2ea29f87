package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// containerOf returns an Avro container file with rows of one number, and a codec in its header.
func containerOf(t *testing.T, codec string, rows ...int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := ocf.NewWriter(&b, avro.MustParse(`{"type":"record","name":"r","fields":[{"name":"x","type":"long"}]}`), ocf.WithBlockCount(2),
		ocf.WithCodec(ocf.DeflateCodec(1)))
	arrowtest.NoError(t, err)
	for _, x := range rows {
		arrowtest.NoError(t, w.Encode(map[string]any{"x": x}))
	}
	arrowtest.NoError(t, w.Close())
	return bytes.Replace(b.Bytes(), []byte("deflate"), []byte(codec), 1)
}

// read returns the offsets of the rows of partition 0 in a folder with these files, from an offset on, each with the number of those
// missing before it, and the files with its copies.
func read(t *testing.T, o Options, files map[string]string, from int64) (rows []string, err error) {
	t.Helper()
	o.Files = t.TempDir()
	for name, content := range files {
		path := filepath.Join(o.Files, name)
		arrowtest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		arrowtest.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	defer func() {
		if err != nil {
			err = errors.New(strings.ReplaceAll(err.Error(), o.Files+"/", ""))
		}
	}()
	a, err := Open(t.Context(), o, "t", nil)
	if err != nil {
		return nil, err
	}
	first, end, err := a.Bounds(t.Context(), 0)
	if err != nil {
		return nil, err
	}
	r := a.Range(0, max(first, from), end)
	defer r.Close()
	for {
		row, err := r.Next(context.Background())
		if err == io.EOF {
			return rows, nil
		}
		if gap, ok := errors.AsType[*GapError](err); ok {
			rows = append(rows, fmt.Sprintf("(%d to %d)", gap.From, gap.To))
			continue
		}
		if err != nil {
			return nil, err
		}
		text := fmt.Sprint(row.Offset)
		for _, c := range row.Copies {
			text += " = " + filepath.Base(c.File)
		}
		rows = append(rows, text)
	}
}

// Rows have the offsets that their files say, each once and in order; what is wrong with a file is an error with its name.
func TestFiles(t *testing.T) {
	whole := string(containerOf(t, "deflate", 1, 2, 3))
	for name, test := range map[string]struct {
		options Options
		files   map[string]string
		want    string // offsets, or the error
	}{
		"in order of offset": {files: map[string]string{"b/t+0+0.json": "{\"x\":1}\n{\"x\":2}\n", "a/t+0+2.avro": whole}, want: "0 1 2 3 4"},
		"a gap":              {files: map[string]string{"t+0+0.avro": whole, "t+0+7.avro": whole}, want: "0 1 2 (3 to 7) 7 8 9"},
		"keys beside":        {files: map[string]string{"t+0+3.avro": whole, "t+0+3.keys.avro": "k"}, want: "3 4 5"},
		"no gap within a file": {Options{Offset: "at"}, map[string]string{"t+0+0.json": "{\"at\":0}\n{\"at\":2}\n", "t+0+3.json": "{\"at\":3}"},
			"0 2 3"},
		"the last one ends first": {files: map[string]string{"t+0+0.json": "{\"x\":1}\n{\"x\":2}\n{\"x\":3}\n", "t+0+1.json": "{\"x\":2}\n"},
			want: "0 1 = t+0+1.json 2"},
		"twice": {files: map[string]string{"t+0+0.json": "{\"x\":1}\n{\"x\":2}\n", "t+0+1.json": "{\"x\":2}\n{\"x\":3}\n", "a/t+0+1.avro": whole},
			want: "0 1 = t+0+1.avro = t+0+1.json 2 = t+0+1.json 3"},
		"an array": {Options{Layout: "aiven"}, map[string]string{
			"t-0-5": "[\n{\"offset\":5,\"value\":{\"x\":1}},\n{\"offset\":6,\"value\":null}\n]\n"}, "5 6"},
		"columns, not in order": {Options{Layout: inColumns}, map[string]string{
			"a.jsonl": "{\"partition\":0,\"offset\":3}\n{\"partition\":1,\"offset\":9}\n{\"partition\":0,\"offset\":1}\n",
			"b.jsonl": "{\"partition\":0,\"offset\":2}\n"},
			"1 2 3"},
		"blank lines":    {files: map[string]string{"t+0+0.json": "\n\n\n\n{\"x\":1}\n", "t+0+1.json": "\n"}, want: "0"},
		"truncated JSON": {files: map[string]string{"t+0+0.json": "{\"x\":1}\n{\"x\":"}, want: "t+0+0.json: line 2: not JSON: it ends too early"},
		"truncated Avro": {files: map[string]string{"t+0+0.avro": whole[:len(whole)-9]},
			want: "t+0+0.avro: row 2, counted from 0: ocf: reading block sync marker: unexpected EOF"},
		"an unknown codec": {files: map[string]string{"t+0+0.avro": string(containerOf(t, "xeflate", 1))},
			want: `t+0+0.avro: ocf: unknown codec "xeflate"`},
		"an empty file": {files: map[string]string{"t+0+0.avro": ""}, want: "t+0+0.avro: an empty file"},
		"another format": {files: map[string]string{"t+0+0.csv": "a,1"},
			want: "t+0+0.csv: rows of no format of archives: expected an Avro container file, Parquet, or JSON with a row in each line"},
		"another topic": {files: map[string]string{"u+0+0.avro": whole},
			want: "u+0+0.avro: a file of the topic u: expected files of t; make the pattern examples.archive.files narrower"},
		"another partition": {Options{Partition: "p"}, map[string]string{"t+0+0.json": "{\"p\":1}"},
			"t+0+0.json: row 0, counted from 0, is of partition 1, and the name of the file says 0: is it a file of another topic?"},
		"no name": {files: map[string]string{"t.avro": whole},
			want: "t.avro: no file name of a sink: set examples.archive.layout to where rows have partition and offset"},
		"no columns": {Options{Layout: inColumns}, map[string]string{"t.avro": whole},
			"t.avro: row 0, counted from 0: no partition and offset: set examples.archive.partition and " +
				"examples.archive.offset to the columns that have them"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := read(t, test.options, test.files, 0)
			got := strings.Join(rows, " ")
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%s\nexpected %s", got, test.want)
			}
		})
	}
}

// A range that begins in a gap lacks the rest of the gap; one that begins where a file has no row does not.
func TestRangesFromGaps(t *testing.T) {
	for layout, names := range map[string][2]string{"confluent": {"t+0+0.json", "t+0+7.json"}, inColumns: {"a.json", "b.json"}} {
		o := Options{Layout: layout, Partition: "partition", Offset: "offset"}
		files := map[string]string{
			names[0]: "{\"partition\":0,\"offset\":0}\n{\"partition\":0,\"offset\":2}\n",
			names[1]: "{\"partition\":0,\"offset\":7}\n{\"partition\":0,\"offset\":9}\n",
		}
		for from, want := range map[int64]string{0: "0 2 (3 to 7) 7 9", 1: "2 (3 to 7) 7 9", 3: "(3 to 7) 7 9", 5: "(5 to 7) 7 9", 7: "7 9", 8: "9"} {
			if rows, err := read(t, o, files, from); err != nil || strings.Join(rows, " ") != want {
				t.Errorf("%s, from %d: %v %v, expected %s", layout, from, rows, err, want)
			}
		}
	}
}

// An error of reading the end of a partition, such as that of a context that has ended, is that of one call.
func TestBoundsAfterAnError(t *testing.T) {
	o := Options{Files: t.TempDir()}
	arrowtest.NoError(t, os.WriteFile(filepath.Join(o.Files, "t+0+0.json"), []byte("{\"x\":1}\n"), 0o600))
	a := arrowtest.Must(Open(t.Context(), o, "t", nil))(t)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := a.Bounds(ended, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, expected that of the context", err)
	}
	if first, end, err := a.Bounds(t.Context(), 0); first != 0 || end != 1 || err != nil {
		t.Errorf("[%d, %d), error %v", first, end, err)
	}
}
