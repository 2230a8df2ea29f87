package serve

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/model"
)

// newCall returns a call with a message. headers are names, each followed by its value.
func newCall(method string, message []byte, headers ...string) *http.Request {
	r := httptest.NewRequest("POST", service+method, bytes.NewReader(append(framing(len(message)), message...)))
	r.ProtoMajor = 2
	r.Header.Set(headerType, typeCall)
	for header := range slices.Chunk(headers, 2) {
		r.Header.Set(header[0], header[1])
	}
	return r
}

// endOf returns the status and the reason in the trailers of a call.
func endOf(t *testing.T, answer *http.Response) (status, reason string) {
	t.Helper()
	reason, err := url.PathUnescape(answer.Trailer.Get("Grpc-Message"))
	assert.True(t, answer.StatusCode == http.StatusOK && answer.Header.Get(headerType) == typeCall && err == nil,
		"%s, %v: expected an answer of gRPC (%v)", answer.Status, answer.Header, err)
	return answer.Trailer.Get("Grpc-Status"), reason
}

// endAndFrame returns the frame that answers a call, and how the call ended.
func endAndFrame(t *testing.T, s *Server, r *http.Request) (frame, status, reason string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	status, reason = endOf(t, w.Result())
	return w.Body.String(), status, reason
}

// sentTensor returns an input: with typed contents of a field of Protobuf, or without them.
func sentTensor(name, datatype string, shape []int, field protowire.Number, contents ...byte) []byte {
	var lengths []byte
	for _, n := range shape {
		lengths = protowire.AppendVarint(lengths, uint64(n))
	}
	tensor := appendField(appendField(appendField(nil, 1, []byte(name)), 2, []byte(datatype)), 3, lengths)
	if field > 0 {
		tensor = appendField(tensor, 5, appendField(nil, field, contents))
	}
	return appendField(nil, 5, tensor)
}

// The frames of calls and of their answers.
func TestCallGoldens(t *testing.T) {
	m := newModelOf(t, []string{"a", "b"}, 7, 2, nil, layout.MissingError)
	none := newServer(t, Defaults(), &switched{stale: io.EOF})
	s := newServer(t, Defaults(), Fixed(m))
	message := "\x0a\x01p\x12\x017\x1a\x0242\x2a\x0f\x0a\x01x\x12\x06UINT16\x1a\x02\x01\x02\x32\x07\x0a\x05label\x3a\x04\x01\x00\x02\x00"
	label := m.Predict([]float32{1, 2}, nil)
	const anyRows = "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
	for _, c := range []struct {
		s                     *Server
		method, message, want string
	}{
		{none, "ServerLive", "", "\x00\x00\x00\x00\x02\x08\x01"},
		{none, "ServerReady", "", "\x00\x00\x00\x00\x02\x08\x00"},
		{s, "ServerReady", "", "\x00\x00\x00\x00\x02\x08\x01"},
		{s, "ModelReady", "\x0a\x01p\x12\x017", "\x00\x00\x00\x00\x02\x08\x01"},
		{s, "ServerMetadata", "", "\x00\x00\x00\x00\x22\x0a\x09stagewise\x12\x012\x1a\x12binary_tensor_data"},
		{s, "ModelMetadata", "\x0a\x01p", "\x00\x00\x00\x00\x6f\x22\x1d\x0a\x08features\x12\x04FP32" + anyRows + "\x18\x02" +
			"\x0a\x01p\x2a\x19\x0a\x05label\x12\x05BYTES" + anyRows + "\x2a\x22\x0a\x0dprobabilities\x12\x04FP32" + anyRows + "\x18\x02" +
			"\x1a\x09stagewise\x12\x017"},
		{s, "ModelInfer", message, "\x00\x00\x00\x00\x23\x0a\x01p\x12\x017\x1a\x0242\x2a\x10\x0a\x05label\x12\x05BYTES\x18\x01" +
			"\x32\x05\x01\x00\x00\x00" + label},
	} {
		got, status, reason := endAndFrame(t, c.s, newCall(c.method, []byte(c.message)))
		assert.True(t, got == c.want && status == "0" && reason == "", "%s: %q, %s %s, expected %q", c.method, got, status, reason, c.want)
	}
	checkFree(t, s)
}

// Calls have the predictions of the same rows at /predict, with typed contents and raw ones, compressed and not.
func TestCallsPredictTheSame(t *testing.T) {
	plain, named := newModel(t, 3, 2, nil, layout.MissingError), newModel(t, 4, 5, people, layout.MissingMean)
	varints := func(values ...int64) (list []byte) {
		for _, v := range values {
			list = protowire.AppendVarint(list, uint64(v))
		}
		return list
	}
	floats := protowire.AppendFixed32(protowire.AppendFixed32(nil, math.Float32bits(1.5)), math.Float32bits(1))
	apart := func(contents ...string) (list []byte) {
		for _, content := range contents {
			list = appendField(list, 7, []byte(content))
		}
		return list
	}
	matrix := []int{2, 2}
	texts := appendField(nil, 5, []byte("\x0a\x04city\x12\x05BYTES\x18\x02\x2a\x08\x42\x04Rome\x42\x00\x4a\x00"))
	for _, c := range []struct {
		m      *model.Model
		rows   string
		inputs [][]byte
	}{
		{plain, `[[1,-2],[3,4]]`, [][]byte{sentTensor("x", "INT8", matrix, 2, varints(1, -2, 3, 4)...)}},
		{plain, `[[1,-2],[3,4]]`, [][]byte{sentTensor("x", "INT64", matrix, 3, varints(1, -2, 3, 4)...)}},
		{plain, `[[1,2],[3,300]]`, [][]byte{sentTensor("x", "UINT16", matrix, 4, varints(1, 2, 3, 300)...)}},
		{plain, `[[1,2],[3,4]]`, [][]byte{sentTensor("x", "UINT64", matrix, 5, varints(1, 2, 3, 4)...)}},
		{plain, `[[1,0],[0,1]]`, [][]byte{sentTensor("x", "BOOL", matrix, 1, varints(1, 0, 0, 1)...)}},
		{plain, `[[1,2],[3,4]]`, [][]byte{apart("\x01\x02\x03\x04"), sentTensor("x", "INT8", matrix, 0)}},
		{wholeModel(t, 5, severalLabels), `[[1,0],[0,1]]`, [][]byte{sentTensor("x", "BOOL", matrix, 1, varints(1, 0, 0, 1)...)}},
		{numbersModel(t, 3), `[[1,0],[0,1]]`, [][]byte{sentTensor("x", "BOOL", matrix, 1, varints(1, 0, 0, 1)...)}},
		{named, `[[30,"Rome",1.5],[31,"",1]]`, [][]byte{sentTensor("height", "FP32", []int{2}, 6, floats...), texts,
			sentTensor("age", "INT32", []int{2, 1}, 2, varints(30, 31)...)}},
		{named, `[[30,"Rome",1.5],[31,"Oslo",1]]`, [][]byte{sentTensor("height", "FP32", []int{2}, 0), sentTensor("city", "BYTES", []int{2}, 0),
			sentTensor("age", "BYTES", []int{2}, 0), apart(string(floats), "\x04\x00\x00\x00Rome\x04\x00\x00\x00Oslo",
				"\x02\x00\x00\x0030\x02\x00\x00\x0031")}},
	} {
		s := newServer(t, Defaults(), Fixed(c.m))
		want := predictedOutputs(t, s, c.m, c.rows)
		message := slices.Concat(c.inputs...)
		zipped := newCall("ModelInfer", packed(t, message), "Grpc-Encoding", "gzip")
		zipped.Body = io.NopCloser(io.MultiReader(strings.NewReader("\x01"), io.NewSectionReader(bytes.NewReader(
			append(framing(len(packed(t, message))), packed(t, message)...)), 1, math.MaxInt32)))
		for _, r := range []*http.Request{newCall("ModelInfer", message), zipped} {
			frame, status, reason := endAndFrame(t, s, r)
			var kinds []string
			got := map[string]any{"id": ""}
			wrong := fields{5: func(tensor []byte) error {
				return fields{1: func(name []byte) error { kinds = append(kinds, string(name)); return nil },
					2: func(kind []byte) error { kinds = append(kinds, string(kind)); return nil }}.read(tensor)
			}, 6: func(data []byte) error {
				got[kinds[0]], kinds = valuesOf(kinds[1], data), kinds[2:]
				return nil
			}}.read([]byte(frame[frameBytes:]))
			assert.True(t, status == "0" && wrong == nil && reflect.DeepEqual(got, want),
				"%s: %s %s: %v, expected %v", c.rows, status, reason, got, want)
		}
		checkFree(t, s)
	}
}

// Invalid and hostile calls end with a status and a reason, and hold nothing.
func TestCallRefusals(t *testing.T) {
	o := Defaults()
	o.MaxBody, o.MaxRows, o.TokenFile = 4096, 3, filepath.Join(t.TempDir(), "token")
	assert.NoError(t, os.WriteFile(o.TokenFile, []byte("0123456789abcdef"), 0o600))
	token := newServer(t, o, Fixed(newModel(t, 3, 2, nil, layout.MissingError)))
	o.TokenFile = ""
	plain, none := newServer(t, o, Fixed(token.versions.Model())), newServer(t, o, &switched{})
	input := func(datatype string, shape []int, field protowire.Number, contents ...byte) string {
		return string(sentTensor("x", datatype, shape, field, contents...))
	}
	row := []int{1, 2}
	for _, c := range []struct {
		s               *Server
		method, message string
		header, value   string
		status, want    string
	}{
		{plain, "ModelInfer", "", "", "", "3", "no inputs"},
		{plain, "ModelInfer", "\xff", "", "", "3", "not a message of Protobuf"},
		{plain, "ModelInfer", "\x2a\x05\x0a", "", "", "3", "not a message of Protobuf"},
		{plain, "ModelInfer", "\x1a\x01\xff", "", "", "3", "UTF-8"},
		{plain, "ModelInfer", "\x32\x03\x0a\x01y", "", "", "3", `"outputs": there is no "y"`},
		{plain, "ModelInfer", input("FP32", row, 0), "", "", "3", `input "x": binary_data_size 0: shape [1 2] of FP32 has 8 bytes`},
		{plain, "ModelInfer", input("FP32", row, 2, 1, 2), "", "", "3", "has 8 bytes"},
		{plain, "ModelInfer", input("FP8", row, 6), "", "", "3", "datatype \"FP8\": expected BYTES"},
		{plain, "ModelInfer", input("INT8", row, 2, 1, 0xc8, 1), "", "", "3", `input "x": 200: expected INT8`},
		{plain, "ModelInfer", input("UINT32", row, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 1), "", "", "3", "expected UINT32"},
		{plain, "ModelInfer", input("BOOL", row, 1, 2, 1), "", "", "3", "expected BOOL"},
		{plain, "ModelInfer", input("INT8", row, 2, 0x80), "", "", "3", "unexpected EOF"},
		{plain, "ModelInfer", input("INT8", []int{1, -2}, 2, 1, 2), "", "", "3", "lengths of at least 1"},
		{plain, "ModelInfer", input("INT8", make([]int, 2000), 2, 1, 2), "", "", "3", "up to 8 lengths"},
		{plain, "ModelInfer", input("INT8", []int{1 << 40, 1 << 40}, 2, 1, 2), "", "", "3", "no more than the"},
		{plain, "ModelInfer", input("INT8", row, 2, 1, 2) + "\x3a\x02\x01\x02", "", "", "3", "1 raw_input_contents of 1 inputs"},
		{plain, "ModelInfer", input("INT8", row, 0) + "\x3a\x02\x01\x02\x3a\x00", "", "", "3", "2 raw_input_contents of 1 inputs"},
		{plain, "ModelInfer", input("INT8", []int{4, 2}, 2, make([]byte, 8)...), "", "", "8", "more than 3 rows"},
		{plain, "ModelInfer", strings.Repeat("\x00", 4097), "", "", "8", "more than 4101 bytes"},
		{plain, "ModelInfer", strings.Repeat("\x00", 4096), "", "", "3", "not a message of Protobuf"},
		{plain, "ModelInfer", "\x0a\x01q", "", "", "5", `there is no model "q": expected p`},
		{plain, "ModelReady", "\x12\x012", "", "", "5", `version "2" is not served, only version 3`},
		{plain, "ModelMetadata", "\x0a\x01\x00\x0a", "", "", "3", "not a message of Protobuf"},
		{plain, "ModelInfer", input("INT8", row, 2, 1, 2), "Grpc-Timeout", "1", "0", ""},
		{plain, "ModelInfer", input("INT8", row, 2, 1, 2), "Grpc-Timeout", "0n", "4", "the deadline of the call has passed"},
		{plain, "ModelInfer", input("INT8", row, 2, 1, 2), "Grpc-Timeout", "99999999H", "0", ""},
		{plain, "ModelStreamInfer", "", "", "", "12", "there is no method"},
		{none, "ModelInfer", "", "", "", "14", "there is no version"},
		{none, "ModelMetadata", "", "", "", "14", "there is no version"},
		{token, "ModelInfer", "", "", "", "16", "bearer token"},
		{token, "ModelReady", "", "", "", "16", "bearer token"},
		{token, "ModelReady", "", "Authorization", "Bearer 0123456789abcdef", "0", ""},
		{token, "ServerReady", "", "", "", "0", ""},
	} {
		_, status, reason := endAndFrame(t, c.s, newCall(c.method, []byte(c.message), c.header, c.value))
		assert.True(t, status == c.status && strings.Contains(reason, c.want),
			"%s %.80q: %s: %s, expected %s: %s", c.method, c.message, status, reason, c.status, c.want)
	}
	for body, want := range map[string]string{"": "3", "\x00\x00\x00\x00": "3", "\x00\x00\x00\x00\x01": "3", "\x00\x00\x00\x00\x00\x00": "3",
		strings.Repeat("\x00", 10): "3", "\x01\x00\x00\x00\x00": "12"} {
		r := newCall("ServerLive", nil)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		_, status, reason := endAndFrame(t, plain, r)
		assert.True(t, status == want && reason != "", "%q: %s: %s, expected %s", body, status, reason, want)
	}
	for _, s := range []*Server{plain, none, token} {
		checkFree(t, s)
	}
}

// Calls arrive over HTTP/2, with TLS and without.
func TestCallsOverHTTP2(t *testing.T) {
	plain := Defaults()
	encrypted := plain
	var trusted *x509.CertPool
	encrypted.Certificate, encrypted.Key, trusted = certified(t)
	for scheme, o := range map[string]Options{"http": plain, "https": encrypted} {
		protocols := new(http.Protocols)
		protocols.SetHTTP2(o.Certificate != "")
		protocols.SetUnencryptedHTTP2(o.Certificate == "")
		client := &http.Client{Transport: &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: trusted}}}
		r := newCall("ModelReady", []byte("\x0a\x01p"))
		r.RequestURI = ""
		r.URL = assert.Must(url.Parse(scheme + "://" + listening(t, o, Fixed(newModel(t, 3, 2, nil, layout.MissingError))) +
			service + "ModelReady"))(t)
		r.Host = ""
		answer := assert.Must(client.Do(r))(t)
		content := assert.Must(io.ReadAll(answer.Body))(t)
		status, reason := endOf(t, answer)
		assert.True(t, status == "0" && string(content) == "\x00\x00\x00\x00\x02\x08\x01", "%s: %q, %s %s", scheme, content, status, reason)
		answer.Body.Close()
		client.CloseIdleConnections()
	}
}

// FuzzCalls checks that any call has an answer, or is rejected with a reason, and that memory is released.
func FuzzCalls(f *testing.F) {
	named, plain := newModel(f, 4, 5, people, layout.MissingMean), newModel(f, 3, 2, nil, layout.MissingError)
	servers := []*Server{newServer(f, Defaults(), Fixed(plain)), newServer(f, Defaults(), Fixed(named))}
	f.Add(sentTensor("x", "INT8", []int{2, 2}, 2, 1, 2, 3, 4))
	f.Add(append(sentTensor("x", "BYTES", []int{1, 3}, 0), "\x3a\x0f\x01\x00\x00\x001\x01\x00\x00\x002\x01\x00\x00\x003"...))
	f.Add([]byte("\x0a\x01p\x1a\x01i\x32\x07\x0a\x05label\x2a\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		for _, s := range servers {
			_, status, reason := endAndFrame(t, s, newCall("ModelInfer", message))
			assert.True(t, status == "0" || reason != "" && slices.Contains([]string{"3", "5", "8"}, status), "%q: %s: %s", message, status, reason)
			checkFree(t, s)
			freeAll(s)
		}
	})
}
