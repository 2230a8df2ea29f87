package serve

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stagewise/stagewise/schemas/value"
)

// service is the path of the gRPC service of the Open Inference Protocol. A call is a request of HTTP/2 with a message in a frame, and
// trailers after the answer have its status.
const service = "/inference.GRPCInferenceService/"

const (
	typeCall       = "application/grpc"
	headerDeadline = "Grpc-Timeout"
	headerPacked   = "Grpc-Encoding" // of a message
	// frameBytes is the size of the prefix of a message: the compression flag and the length.
	frameBytes = 5
)

// isCall reports whether a request is a call of gRPC.
func isCall(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.TrimSuffix(r.Header.Get(headerType), "+proto") == typeCall
}

// addCalls adds the routes of the gRPC service. A call answers with the JSON of a route, as a message whose fields have these names.
func (s *Server) addCalls() {
	s.routes[service+"ModelInfer"] = route{method: http.MethodPost, predicts: true, answer: s.inferCall}
	for name, of := range map[string][]string{
		"ServerLive":     {"/v2/health/live", "live"},
		"ServerReady":    {"/v2/health/ready", "ready"},
		"ServerMetadata": {"/v2", "name", "version", "extensions"},
		"ModelReady":     {"/v2/models/{model}/ready", "ready"},
		"ModelMetadata":  {"/v2/models/{model}", "name", "versions", "platform", "inputs", "outputs"},
	} {
		to := s.routes[of[0]]
		s.routes[service+name] = route{method: http.MethodPost, public: to.public, answer: func(w http.ResponseWriter, r *http.Request) error {
			return s.call(w, r, to, of[1:])
		}}
	}
}

// call answers a call whose message names at most a model and its version.
func (s *Server) call(w http.ResponseWriter, r *http.Request, to route, names []string) error {
	b, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer b.release()
	defer s.connections.Begin(r, !to.public)()
	m, err := b.measure(smallBytes)
	if err != nil {
		return err
	}
	message, err := b.rows(m.bytes)
	if err != nil {
		return err
	}
	var name, number []byte
	if err := (fields{1: keep(&name), 2: keep(&number)}).read(message); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	r.SetPathValue("model", string(name))
	r.SetPathValue("version", string(number))
	answer := collected{ResponseWriter: w}
	err = to.answer(&answer, r)
	if no, ok := errors.AsType[*refusal](err); ok && no.status == http.StatusServiceUnavailable && names[0] == "ready" {
		answer.json, err = []byte(`{"ready":false}`), nil
	}
	if err != nil {
		return err
	}
	content := messageOf(answer.json, names...)
	w.Header().Set(headerType, typeCall)
	_, _ = w.Write(append(framing(len(content)), content...)) // the client may have disconnected
	return nil
}

// collected keeps the JSON of an answer.
type collected struct {
	http.ResponseWriter
	json value.Cell
}

func (c *collected) Write(p []byte) (int, error) {
	c.json = append(c.json, p...)
	return len(p), nil
}

// inferCall handles a prediction request, whose answer is computed until the deadline of the call.
func (s *Server) inferCall(w http.ResponseWriter, r *http.Request) error {
	if text := r.Header.Get(headerDeadline); text != "" {
		unit := map[byte]string{'H': "h", 'M': "m", 'S': "s", 'm': "ms", 'u': "us", 'n': "ns"}[text[len(text)-1]]
		if after, err := time.ParseDuration(text[:len(text)-1] + unit); err == nil { // else it is centuries, or not a time
			ctx, cancel := context.WithTimeoutCause(r.Context(), after, refuse(http.StatusGatewayTimeout, "the deadline of the call has passed"))
			defer cancel()
			r = r.WithContext(ctx)
		}
	}
	return s.respond(w, &prediction{request: r, sent: openInference, kind: typeCall})
}

// unframe removes the frame of the message in the body of a call.
func (b *body) unframe(r *http.Request) error {
	packed := r.Header.Get(headerPacked)
	switch {
	case len(b.text) < frameBytes || uint64(binary.BigEndian.Uint32(b.text[1:])) != uint64(len(b.text)-frameBytes):
		return refuse(http.StatusBadRequest, "a body of %d bytes: expected one message, with its length before it", len(b.text))
	case b.text[0] != 0 && packed != "gzip":
		return refuse(http.StatusNotImplemented, "grpc-encoding %.20q: expected gzip or identity", packed)
	}
	b.packed, b.text = b.text[0] != 0, b.text[frameBytes:]
	return nil
}

// framing returns the prefix of a message of a size.
func framing(size int) []byte { return binary.BigEndian.AppendUint32([]byte{0}, uint32(size)) }

// endCall sets the status of a call in trailers: an HTTP status as a gRPC status, and the reason.
func endCall(h http.Header, status int, reason string) {
	const unknown = 2
	code, known := map[int]int{http.StatusOK: 0, http.StatusBadRequest: 3, http.StatusRequestTimeout: 4, http.StatusGatewayTimeout: 4,
		http.StatusNotFound: 5, http.StatusMisdirectedRequest: 7, http.StatusRequestEntityTooLarge: 8,
		http.StatusUnsupportedMediaType: 12, http.StatusNotImplemented: 12, http.StatusInternalServerError: 13,
		http.StatusServiceUnavailable: 14, http.StatusUnauthorized: 16}[status]
	if !known {
		code = unknown
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(code))
	if reason != "" {
		h.Set(http.TrailerPrefix+"Grpc-Message", url.PathEscape(reason))
	}
}

// fields reads the fields of a message of Protobuf by their numbers, and ignores others. A single number is read like a packed list with
// it.
type fields map[protowire.Number]func(content []byte) error

func (f fields) read(message []byte) error {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeField(message)
		if size < 0 {
			return fmt.Errorf("not a message of Protobuf: %w", protowire.ParseError(size))
		}
		content := message[protowire.SizeTag(number):size]
		if message = message[size:]; kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(content)
		}
		if read := f[number]; read != nil {
			if err := read(content); err != nil {
				return err
			}
		}
	}
	return nil
}

// readCall returns the inputs of a ModelInferRequest, and sets the contents of the answer. It reserves memory for what it copies.
func (p *prediction) readCall(message []byte) (inputs []tensor, err error) {
	var name, number, id []byte
	var raw [][]byte
	p.asks.binary = true
	err = fields{1: keep(&name), 2: keep(&number), 3: keep(&id), 5: func(input []byte) error {
		t, err := p.readTensor(input)
		if err != nil {
			return fmt.Errorf("input %.40q: %w", t.name, err)
		}
		inputs = append(inputs, t)
		return nil
	}, 6: fields{1: func(name []byte) error { return p.asks.want(p.version, string(name), true) }}.read, 7: func(content []byte) error {
		raw = append(raw, content)
		return p.unpackAgain(itemBytes)
	}}.read(message)
	if err = cmp.Or(err, value.CheckUTF8(id)); err != nil {
		return nil, err
	}
	if len(id) > 0 {
		p.asks.id, _ = json.Marshal(string(id)) // a string can be encoded
	}
	typed := slices.ContainsFunc(inputs, func(t tensor) bool { return len(t.bytes) > 0 })
	if raw != nil && (len(raw) != len(inputs) || typed) {
		return nil, fmt.Errorf("%d raw_input_contents of %d inputs: expected those of all, or contents in each input", len(raw), len(inputs))
	}
	for i := range raw {
		inputs[i].bytes = raw[i]
	}
	return inputs, p.named(string(name), string(number))
}

// readTensor reads an input. Typed contents become the same bytes as raw ones.
func (p *prediction) readTensor(message []byte) (t tensor, err error) {
	var name, datatype, contents []byte
	err = fields{1: keep(&name), 2: keep(&datatype), 3: func(shape []byte) error {
		return eachVarint(shape, func(length uint64) error {
			if len(t.shape) <= maxDimensions { // more are an error later
				t.shape = append(t.shape, int(length))
			}
			return nil
		})
	}, 5: keep(&contents)}.read(message)
	t.name, t.datatype = string(name), string(datatype)
	err = cmp.Or(err, value.CheckUTF8(name), value.CheckUTF8(datatype), p.unpackAgain(columnBytes+len(name)+len(datatype)))
	if err != nil || !t.setType() { // an unknown type is an error later
		return t, err
	}
	add := func(content []byte) error {
		t.bytes = append(t.bytes, content...)
		return p.unpackAgain(2 * len(content))
	}
	return t, fields{t.contents: func(content []byte) error {
		switch t.datatype {
		case "FP32", "FP64":
			return add(content)
		case "BYTES":
			return cmp.Or(add(binary.LittleEndian.AppendUint32(nil, uint32(len(content)))), add(content))
		}
		return eachVarint(content, func(v uint64) error {
			unused := 64 - 8*t.size
			back := v << unused >> unused
			if t.datatype[0] == 'I' {
				back = uint64(int64(v) << unused >> unused)
			}
			if back != v {
				return fmt.Errorf("%d: expected %s", int64(v), t.datatype)
			}
			return add(binary.LittleEndian.AppendUint64(nil, v)[:t.size])
		})
	}}.read(contents)
}

// eachVarint calls with for each number in a packed list.
func eachVarint(list []byte, with func(uint64) error) error {
	for len(list) > 0 {
		v, n := protowire.ConsumeVarint(list)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := with(v); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// messageOf returns an object of JSON as a message, whose fields have these names. Tensors have the same fields in all messages.
func messageOf(object value.Cell, names ...string) (message []byte) {
	_ = object.Each(func(name []byte, cell value.Cell) error { // it is an object
		number := protowire.Number(slices.Index(names, string(name)) + 1)
		items := []value.Cell{cell}
		if cell[0] == '[' {
			items = cell.Items()
		}
		for _, item := range items[:len(items)*min(int(number), 1)] {
			switch item[0] {
			case '{':
				message = appendField(message, number, messageOf(item, "name", "datatype", "shape"))
			case '"':
				message = appendField(message, number, item.Name())
			case 't', 'f':
				message = protowire.AppendVarint(protowire.AppendTag(message, number, protowire.VarintType), protowire.EncodeBool(item[0] == 't'))
			default:
				n, _ := strconv.ParseInt(string(item), 10, 64)
				message = protowire.AppendVarint(protowire.AppendTag(message, number, protowire.VarintType), uint64(n))
			}
		}
		return nil
	})
	return message
}

func appendField(dst []byte, field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), content)
}
