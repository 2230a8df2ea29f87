package serve

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
)

// http2Frame returns an HTTP/2 frame (RFC 9113).
func http2Frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(binary.BigEndian.AppendUint32(append(head, flags), stream), payload...)
}

// http2Requests returns a connection with requests whose client has a flow-control window of 0: it reads no answers.
func http2Requests(n int, body []byte) []byte {
	const headers, data, settings, endStream, endHeaders, initialWindow = 1, 0, 4, 1, 4, 4
	out := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), http2Frame(settings, 0, 0, []byte{0, initialWindow, 0, 0, 0, 0})...)
	var block []byte
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/predict"}, {":authority", "localhost"}, {"content-type", typeJSON}} {
		block = append(append(append(append(block, 0, byte(len(h[0]))), h[0]...), byte(len(h[1]))), h[1]...)
	}
	for i := range n {
		stream := uint32(2*i + 1)
		out = append(append(out, http2Frame(headers, endHeaders, stream, block)...), http2Frame(data, endStream, stream, body)...)
	}
	return out
}

// Clients that do not read their answers hold nothing that others compute with: HTTP/2 streams without a window, and pipelined requests.
func TestClientsThatReadNothing(t *testing.T) {
	o := Defaults()
	o.Timeout = 3 * time.Second
	m := newModelOf(t, manyClasses(20), 3, 2, nil, layout.MissingError)
	_, body := someRows(t, 64) // with an answer of 15 kB
	streams := 3 * runtime.GOMAXPROCS(0)
	for name, sent := range map[string][]byte{"HTTP/2": http2Requests(streams, body), "pipelined": bytes.Repeat(raw(body), 1000)} {
		s, address := serving(t, o, Fixed(m))
		for range cap(s.cores) + 1 {
			conn := dial(t, address, "")
			go func() { _, _ = conn.Write(sent) }() // until the test ends
		}
		for testutil.ToFloat64(s.metrics.rows) < float64(64*(cap(s.cores)+1)) { // answered, with nobody who reads
			runtime.Gosched()
		}
		for range 20 {
			served(t, address)
		}
		if t.Failed() {
			t.Log(name)
		}
	}
}

// dictionaryOf returns an Arrow stream of batches of n rows that all have the same text of a dictionary.
func dictionaryOf(t *testing.T, column, text string, n, batches int, o ...ipc.Option) []byte {
	t.Helper()
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: column, Type: kind}}, nil))
	defer b.Release()
	rows := b.Field(0).(*array.BinaryDictionaryBuilder)
	assert.NoError(t, rows.AppendString(text))
	rows.AppendIndices(make([]int, n-1), nil)
	return streamOf(t, slices.Repeat([]arrow.Record{b.NewRecord()}, batches), o...)
}

// patient returns options whose timeout no slow machine reaches.
func patient() Options {
	o := Defaults()
	o.Timeout = 10 * time.Minute
	return o
}

// What rows unpack to is bounded before it is computed: texts of a dictionary count for each row that has them, and
// decompressed bytes for all batches.
func TestRowsThatUnpackToMuch(t *testing.T) {
	long := strings.Repeat("one two three ", 70_000)
	words, city := sparseModel(t, 64, "message"), newModel(t, 4, 3, examples.Columns{{Name: "city", Categories: []string{"Oslo", "Rome"}}}, layout.MissingError)
	for name, c := range map[string]struct {
		s      *Server
		body   []byte
		status int
	}{
		"a text of a megabyte in each of many rows": {newServer(t, patient(), Fixed(words)), dictionaryOf(t, "message", long, 10_000, 1), http.StatusRequestEntityTooLarge},
		"compressed":            {newServer(t, patient(), Fixed(words)), dictionaryOf(t, "message", long, 5000, 2, ipc.WithZstd()), http.StatusRequestEntityTooLarge},
		"in batches of one row": {newServer(t, patient(), Fixed(words)), dictionaryOf(t, "message", long, 1, 100), http.StatusRequestEntityTooLarge},
		"words of a category":   {newServer(t, patient(), Fixed(city)), dictionaryOf(t, "city", long, 100, 1), http.StatusRequestEntityTooLarge},
		"a few texts":           {newServer(t, patient(), Fixed(words)), dictionaryOf(t, "message", long, 5, 2), http.StatusOK},
		"short texts":           {newServer(t, patient(), Fixed(words)), dictionaryOf(t, "message", "one two", 1000, 1, ipc.WithLZ4()), http.StatusOK},
		"many compressed batches": {newServer(t, patient(), Fixed(newModel(t, 3, 1<<16, nil, layout.MissingError))),
			listsOf(t, zeros(100, 1<<16), 1, ipc.WithZstd()), http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(c.s, "POST", "/predict", typeArrow, c.body)
			assert.True(t, w.Code == c.status &&
				(w.Code != http.StatusRequestEntityTooLarge || strings.Contains(reason(t, w), "when unpacked: send fewer")),
				"%d bytes: %d: %.200s", len(c.body), w.Code, w.Body)
			checkFree(t, c.s)
		})
	}
}

// serve.timeout also ends the computation of an answer, and waiting for a core.
func TestAnswersThatTakeTooLong(t *testing.T) {
	o := Defaults()
	o.Timeout = time.Millisecond
	_, body := someRows(t, 10_000)
	rows, _ := someRows(t, 10_000)
	s := newServer(t, o, Fixed(newModelOf(t, manyClasses(100), 3, 2, nil, layout.MissingError)))
	for kind, body := range map[string][]byte{typeJSON: body, typeArrow: listsOf(t, rows, 100)} {
		w := ask(s, "POST", "/predict", kind, body)
		for strings.HasPrefix(w.Body.String(), `{"error":"no core was free`) { // on a busy machine
			w = ask(s, "POST", "/predict", kind, body)
		}
		got := reason(t, w)
		assert.True(t, w.Code == http.StatusServiceUnavailable && got == "the answer was not computed within 1ms: send fewer rows at a time",
			"%s: %d: %s", kind, w.Code, got)
	}
	for range cap(s.cores) {
		assert.NoError(t, s.enter(t.Context()))
	}
	assert.Equal(t, reason(t, ask(s, "POST", "/predict", typeJSON, []byte(`{"rows":[[1,2]]}`))), "no core was free for 1ms: send it again", "")
	for range cap(s.cores) {
		s.leave()
	}
	checkFree(t, s)
}

// An answer is bounded by serve.memory before it is computed.
func TestAnswersThatAreTooLong(t *testing.T) {
	o := Defaults()
	o.Memory = 32 << 20
	_, body := someRows(t, 10_000)
	s := newServer(t, o, Fixed(newModelOf(t, manyClasses(100), 3, 2, nil, layout.MissingError)))
	for _, accept := range []string{typeJSON, typeArrow} {
		w := ask(s, "POST", "/predict", typeJSON, body, "Accept", accept)
		got := reason(t, w)
		assert.True(t, w.Code == http.StatusRequestEntityTooLarge && strings.HasPrefix(got, "the answer would have more than 2097152 bytes"),
			"%s: %d: %s", accept, w.Code, got)
		w = ask(s, "POST", "/predict", typeJSON, body, "Accept", accept, headerTop, "1")
		assert.True(t, w.Code == http.StatusOK, "%s: %d: %.200s", accept, w.Code, w.Body)
	}
	checkFree(t, s)
}

// What is reserved for the rows of a request is at least what they take.
func TestMemoryOfWideRows(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short, the race detector is used, with which slices take more")
	}
	o := Defaults()
	var words strings.Builder
	for i := 0; words.Len() < 2<<20; i++ {
		fmt.Fprintf(&words, "%x ", i)
	}
	var members strings.Builder
	for i := 0; members.Len() < 2<<20; i++ {
		fmt.Fprintf(&members, `,"%x":0`, i)
	}
	pairs := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "x",
		Type: arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float32)}}, nil))
	defer pairs.Release()
	rows := pairs.Field(0).(*array.MapBuilder)
	for range 16 {
		rows.Append(true)
		for i := range 20_000 {
			rows.KeyBuilder().(*array.Int32Builder).Append(int32(i))
			rows.ItemBuilder().(*array.Float32Builder).Append(1)
		}
	}
	sparse, texts, dense := sparseModel(t, 5, ""), sparseModel(t, 1<<18, "message"), newModel(t, 3, 5, people, layout.MissingMean)
	nested := newModel(t, 3, 2, examples.Columns{{Name: "items.0"}, {Name: "items.1"}}, layout.MissingMean)
	for name, c := range map[string]struct {
		m    *model.Model
		kind string
		body []byte
	}{
		"values":  {sparse, typeJSON, []byte(`{"rows":[[1` + strings.Repeat(",1", 1<<20) + "]]}")},
		"indices": {sparse, typeJSON, indexed(300_000)},
		"words":   {texts, typeJSON, []byte(`{"rows":["` + words.String() + `"]}`)},
		"texts":   {texts, typeJSON, []byte(`{"rows":[{"message":["a"` + strings.Repeat(`,"a"`, 2<<20) + "]}]}")},
		"members": {dense, typeJSON, []byte(`{"rows":[{"age":1` + members.String() + `}]}`)},
		"a word":  {dense, typeJSON, []byte(`{"rows":[{"age":1,"city":"` + strings.Repeat("a", 8<<20) + `"}]}`)},
		"escapes": {dense, typeJSON, []byte(`{"rows":[{"age":1,"city":"` + strings.Repeat(`a\u0041`, 1<<20) + `"}]}`)},
		"items":   {nested, typeJSON, []byte(`{"rows":[{"items":[1` + strings.Repeat(",1", 1<<20) + "]}]}")},
		"pairs":   {sparse, typeArrow, streamOf(t, []arrow.Record{pairs.NewRecord()})},
	} {
		s := newServer(t, o, Fixed(c.m))
		v := assert.Must(s.newest())(t)
		reserved := int64(len(c.body)) + ofValues(v, 16*20_000)
		if c.kind == typeJSON {
			m, _ := (&body{text: c.body}).measure(0)
			reserved = ofJSON(v, m)
		}
		taken := int64(math.MaxInt64)
		for try := 0; try < 5 && taken > reserved+workspaceBytes; try++ { // the runtime counts what servers of other tests allocate, too
			var before, after runtime.MemStats
			s := newServer(t, o, Fixed(c.m))
			runtime.ReadMemStats(&before)
			w := ask(s, "POST", "/predict", c.kind, c.body)
			runtime.ReadMemStats(&after)
			assert.True(t, w.Code == http.StatusOK, "%s: %d: %.200s", name, w.Code, w.Body)
			taken = int64(after.TotalAlloc-before.TotalAlloc) - int64(len(c.body))
		}
		t.Logf("%s: %d bytes for a body of %d, reserved %d", name, taken, len(c.body), reserved)
		assert.True(t, taken <= reserved+workspaceBytes, "%s: %d bytes, more than the %d that are reserved", name, taken, reserved)
	}
}

// Values of tensors in JSON have all of their memory before they are read: otherwise they are read several times.
func TestMemoryOfTensors(t *testing.T) {
	const n = 20_000
	var inputs []string
	for name, c := range map[string][2]string{"age": {"INT32", "30"}, "height": {"FP64", "1.75"}, "city": {"BYTES", `"Rome"`}} {
		inputs = append(inputs, fmt.Sprintf(`{"name":%q,"datatype":%q,"shape":[%d],"data":[%s%s]}`, name, c[0], n, c[1], strings.Repeat(","+c[1], n-1)))
	}
	o := Defaults()
	o.MaxRows = n
	s := newServer(t, o, Fixed(newModel(t, 3, 5, people, layout.MissingMean)))
	r := httptest.NewRequest("POST", inferPath, strings.NewReader(`{"inputs":[`+strings.Join(inputs, ",")+`]}`))
	b := assert.Must(s.read(httptest.NewRecorder(), r))(t)
	defer b.release()
	m := assert.Must(b.measure(int64(o.MaxBody)))(t)
	p := &prediction{Server: s, request: r, header: http.Header{}, sent: openInference, kind: openInference, answered: &claim{}}
	assert.Must(p.compute(t.Context(), b))(t)
	needed := p.rowBytes
	p.needs(m, false)
	assert.True(t, p.rowBytes >= needed, "%d rows take %d bytes, and %d are reserved", n, needed, p.rowBytes)
}

// reading is a client that collects garbage when it reads the answer.
type reading struct {
	*httptest.ResponseRecorder
	held uint64 // memory in use
}

func (r *reading) Write(p []byte) (int, error) {
	r.held = heldBytes()
	return r.ResponseRecorder.Write(p)
}

// heldBytes returns the memory in use.
func heldBytes() uint64 {
	runtime.GC()
	runtime.GC() // also frees what pools had
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// While a client reads an answer, the server holds nothing of the request.
func TestMemoryWhileAnswersAreSent(t *testing.T) {
	o := patient()
	o.Answers.Topic = "answers"
	for name, body := range map[string]string{"members": `{"id": "%s", "rows": ["a"]}`, "texts": `{"rows": ["%s"]}`} {
		s := newServer(t, o, Fixed(sparseModel(t, 64, "message")))
		assert.NoError(t, s.WriteAnswers(t.Context(), &topic{partitions: 1}))
		sent := fmt.Sprintf(body, strings.Repeat("a word ", 1<<20))
		ask(s, "POST", "/predict", typeJSON, []byte(`{"rows": ["a"]}`)) // what is made once
		before := heldBytes()
		r := httptest.NewRequest("POST", "/predict", strings.NewReader(sent))
		r.Header.Set("Content-Type", typeJSON)
		w := &reading{ResponseRecorder: httptest.NewRecorder()}
		s.ServeHTTP(w, r)
		limit := before + 1<<20
		assert.True(t, w.Code == http.StatusOK && w.held <= limit,
			"%s: %d: %d bytes while the answer is read, %d before", name, w.Code, w.held, before)
		s.closeAnswers(t.Context())
		runtime.KeepAlive(sent)
	}
}

// A request that waits for memory takes none from those that are computed.
func TestAnswersWhileOthersWait(t *testing.T) {
	s := newServer(t, Defaults(), Fixed(newModelOf(t, manyClasses(20), 3, 2, nil, layout.MissingError)))
	rows := s.memory.rows[1]
	assert.Need(t, rows.TryAcquire(rows.size-1), "memory is held")
	waited := make(chan error, 1)
	go func() {
		c, err := s.claim(t.Context(), &s.memory.rows, smallBytes+1)
		c.release()
		waited <- err
	}()
	for rows.TryAcquire(1) { // nobody waits yet
		rows.Release(1)
		runtime.Gosched()
	}
	_, body := someRows(t, 1000) // with an answer of 200 kB
	w := ask(s, "POST", "/predict", typeJSON, body)
	assert.True(t, w.Code == http.StatusOK, "%d: %s", w.Code, w.Body)
	rows.Release(rows.size - 1)
	assert.Fails(t, <-waited, nil)
}

// Rows of Arrow wait for memory as those of JSON do, also behind a request that waits for all of it.
func TestArrowRowsWaitForMemory(t *testing.T) {
	m := newModel(t, 3, 2, nil, layout.MissingError)
	rows, _ := someRows(t, 200_000)
	body := listsOf(t, rows, 1000)
	synctest.Test(t, func(t *testing.T) {
		o := Defaults()
		o.MaxRows = len(rows)
		s := newServer(t, o, Fixed(m))
		large := s.memory.rows[1]
		assert.Need(t, large.TryAcquire(large.size), "memory is held")
		go func() {
			if c, err := s.claim(t.Context(), &s.memory.rows, large.size); err == nil {
				c.release()
			}
		}()
		synctest.Wait()
		var w *httptest.ResponseRecorder
		go func() { w = ask(s, "POST", "/predict", typeArrow, body) }()
		synctest.Wait()
		large.Release(large.size)
		synctest.Wait()
		assert.True(t, w != nil && w.Code == http.StatusOK, "%v", w)
		checkFree(t, s)
	})
}

// indexed returns a request with a sparse row of n values.
func indexed(n int) []byte {
	indices, values := make([]string, n), slices.Repeat([]string{"1"}, n)
	for i := range indices {
		indices[i] = fmt.Sprint(i)
	}
	return fmt.Appendf(nil, `{"rows":[{"indices":[%s],"values":[%s]}]}`, strings.Join(indices, ","), strings.Join(values, ","))
}

// packed compresses a text.
func packed(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	assert.Must(w.Write(text))(t)
	assert.NoError(t, w.Close())
	return b.Bytes()
}

// A gzip body is answered like an uncompressed one; the limits apply to both the decompressed and the compressed size.
// Other encodings are rejected with the supported one.
func TestCompressedBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("long: with -short, shorter tests start the same goroutines")
	}
	m := newModel(t, 3, 2, nil, layout.MissingError)
	o := Defaults()
	o.MaxBody, o.Memory = 1<<20, 1<<20
	s := newServer(t, o, Fixed(m))
	rows, body := someRows(t, 900)
	for _, encoding := range []string{"gzip", "GZIP", "x-gzip"} {
		checkAnswer(t, ask(s, "POST", "/predict", typeJSON, packed(t, body), "Content-Encoding", encoding), m, rows...)
	}
	checkAnswer(t, ask(s, "POST", "/predict", typeJSON, append(packed(t, body[:100]), packed(t, body[100:])...), "Content-Encoding", "gzip"), m, rows...)
	checkAnswer(t, ask(s, "POST", "/predict", typeJSON, body, "Content-Encoding", "identity"), m, rows...)
	whole := packed(t, body)
	for name, c := range map[string]struct {
		body     []byte
		encoding string
		status   int
		want     string
	}{
		"bomb":      {packed(t, make([]byte, 100<<20)), "gzip", http.StatusRequestEntityTooLarge, "more than 1048576 bytes"},
		"cut off":   {whole[:len(whole)-9], "gzip", http.StatusBadRequest, "decompress it"},
		"plain":     {body, "gzip", http.StatusBadRequest, "decompress it: gzip: invalid header"},
		"empty":     {nil, "gzip", http.StatusBadRequest, "decompress it"},
		"checksum":  {append(append([]byte{}, whole[:len(whole)-5]...), 0, 0, 0, 0, 0), "gzip", http.StatusBadRequest, "decompress it"},
		"br":        {body, "br", http.StatusUnsupportedMediaType, `Content-Encoding "br": expected gzip`},
		"two":       {whole, "gzip, gzip", http.StatusUnsupportedMediaType, "expected gzip"},
		"many zero": {packed(t, []byte(strings.Repeat("0", 1<<20+1))), "gzip", http.StatusRequestEntityTooLarge, "more than 1048576 bytes"},
	} {
		w := ask(s, "POST", "/predict", typeJSON, c.body, "Content-Encoding", c.encoding)
		got := reason(t, w)
		assert.True(t, w.Code == c.status && strings.Contains(got, c.want), "%s: %d: %s, expected %d: %s", name, w.Code, got, c.status, c.want)
		assert.True(t, c.status != http.StatusUnsupportedMediaType || w.Header().Get("Accept-Encoding") == "gzip",
			"%s: Accept-Encoding %q", name, w.Header().Get("Accept-Encoding"))
	}
	checkFree(t, s)
}

// A compressed body holds memory for the bytes that were sent, and then for those that it has, but none for the largest body.
func TestMemoryOfCompressedBodies(t *testing.T) {
	m := newModel(t, 3, 2, nil, layout.MissingError)
	s := newServer(t, Defaults(), Fixed(m))
	rows, body := someRows(t, 10_000)
	sent := packed(t, body)
	for _, part := range s.memory.bodies {
		part.TryAcquire(part.size)
	}
	s.memory.bodies[1].Release(int64(len(sent)))
	s.memory.bodies[0].Release(smallBytes)
	checkAnswer(t, ask(s, "POST", "/predict", typeJSON, sent, "Content-Encoding", "gzip"), m, rows...)
}

// FuzzRows compares the reader of rows with encoding/json: it only accepts valid JSON, and reads the same values of each list of numbers.
func FuzzRows(f *testing.F) {
	for _, seed := range []string{
		`{"rows":[[1,-2.5],[0,1e3]]}`, `{"rows":[]}`, ` { "rows" : [ [ 1 , 0.5 ] ] } `, `{"rows":[[01,1]]}`, `{"rows":[[1.,1]]}`,
		`{"rows":[["1","é\n"]]}`,
		`{"rows":[[-0,-]]}`, `{"rows":[[1234567,12345678]]}`, `{"rows":[[1e39,1]]}`, `{"rows":[[1,2],]}`, `{"rows":[[1,2]],"rows":[]}`,
		"{\"rows\":[[\"\xff\",1]]}",
	} {
		f.Add([]byte(seed))
	}
	request, err := layout.NewRequest(layout.TrainedAs(newModel(f, 1, 2, nil, layout.MissingMean).Manifest.Plan), layout.Features{Width: 2})
	assert.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := allRows(body, request)
		var want struct {
			Rows [][]*float32 `json:"rows"`
		}
		strict := json.NewDecoder(bytes.NewReader(body))
		strict.DisallowUnknownFields()
		wrong := strict.Decode(&want)
		if _, more := strict.Token(); wrong == nil && more != io.EOF {
			wrong = more
		}
		assert.Need(t, err != nil || json.Valid(body), "%q was taken as %v, and is no JSON", body, got)
		if wrong != nil || err != nil {
			return // unlike encoding/json, this accepts words, but no rows of another length, other cases of keys, or repeated keys
		}
		assert.Need(t, len(got) == 2*len(want.Rows), "%q has the values %v, expected %d rows", body, got, len(want.Rows))
		for i, row := range want.Rows {
			for j, v := range row {
				if v != nil {
					assert.Need(t, got[2*i+j] == *v, "%q has the values %v, expected %v in row %d", body, got, *v, i)
				}
			}
		}
	})
}

// allRows returns the features of the dense rows of a body.
func allRows(body []byte, request *layout.Request) (values []float32, err error) {
	err = readBody(body, request, 1, func(rows *examples.Rows) error { values = append(values, rows.Floats...); return nil })
	return values, err
}

// sparseRowsOf returns the sparse rows of a body.
func sparseRowsOf(body []byte, o layout.Options, columns examples.Columns) (all examples.SparseRows, err error) {
	request, err := layout.NewRequest(o, layout.Features{Columns: columns, Sparse: true})
	if err != nil {
		return all, err
	}
	err = readBody(body, request, math.MaxInt, func(rows *examples.Rows) error { all = *rows.Sparse; return nil })
	return all, err
}

// readBody calls tile with the rows of a body.
func readBody(body []byte, request *layout.Request, most int, tile func(*examples.Rows) error) error {
	f, err := frameOf(body, typeJSON, &asked{})
	if err != nil {
		return err
	}
	rows, err := newJSONRows(f, newReader(request), func(*reader) {})
	if err != nil {
		return err
	}
	return rows.read(most, tile)
}
