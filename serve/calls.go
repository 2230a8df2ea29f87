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
	// escapedBytes is the memory for a byte of a name and of its JSON, which may escape it.
	escapedBytes = 7
	// frameBytes is the size of the prefix of a message: the compression flag and the length.
	frameBytes = 5
)

// isCall reports whether a request is a call of gRPC.
func isCall(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.TrimSuffix(r.Header.Get(headerType), "+proto") == typeCall
}

// calls returns the routes of the gRPC service. A call answers with the JSON of a route, as a message whose fields have these names.
func (s *Server) calls(routes map[string]route) map[string]route {
	calls := map[string]route{service + "ModelInfer": {method: http.MethodPost, predicts: true, answer: s.inferCall}}
	for name, of := range map[string][]string{
		"ServerLive":     {"/v2/health/live", "live"},
		"ServerReady":    {"/v2/health/ready", "ready"},
		"ServerMetadata": {"/v2", "name", "version", "extensions"},
		"ModelReady":     {"/v2/models/{model}/ready", "ready"},
		"ModelMetadata":  {"/v2/models/{model}", "name", "versions", "platform", "inputs", "outputs"},
	} {
		to := routes[of[0]]
		calls[service+name] = route{method: http.MethodPost, public: to.public, answer: func(w http.ResponseWriter, r *http.Request) error {
			return s.call(w, r, to, of[1:])
		}}
	}
	return calls
}

// call answers a call whose message names at most a model and its version.
func (s *Server) call(w http.ResponseWriter, r *http.Request, to route, names []string) error {
	b, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer b.release()
	defer s.begin(r, !to.public)()
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

// translate returns a ModelInferRequest as the JSON and the binary data of the same request over REST, for which it reserves memory.
func (p *prediction) translate(message []byte) (text, data []byte, err error) {
	var request struct {
		ID         string           `json:"id,omitempty"`
		Inputs     []tensorMetadata `json:"inputs"`
		Outputs    []tensorMetadata `json:"outputs"`
		Parameters struct {
			Binary bool `json:"binary_data_output"`
		} `json:"parameters"`
	}
	request.Parameters.Binary = true
	var name, number, id []byte
	typed, raw := 0, []int(nil) // sizes of contents in inputs, and of those apart
	err = fields{1: keep(&name), 2: keep(&number), 3: keep(&id), 5: func(input []byte) error {
		before := len(data)
		t, err := p.readTensor(input, &data)
		if err != nil {
			return fmt.Errorf("input %.40q: %w", t.Name, err)
		}
		size := len(data) - before
		t.Parameters, typed = map[string]any{"binary_data_size": size}, typed+size
		request.Inputs = append(request.Inputs, t)
		return nil
	}, 6: func(output []byte) error {
		t, err := p.readTensor(output, &data)
		request.Outputs = append(request.Outputs, tensorMetadata{Name: t.Name})
		return err
	}, 7: func(content []byte) error {
		raw = append(raw, len(content))
		return p.addData(&data, content)
	}}.read(message)
	request.ID = string(id)
	if err == nil {
		err = cmp.Or(value.CheckUTF8(id), p.unpackAgain(escapedBytes*len(id)))
	}
	if err == nil && raw != nil && (len(raw) != len(request.Inputs) || typed > 0) {
		err = fmt.Errorf("%d raw_input_contents of %d inputs: expected those of all, or contents in each input", len(raw), len(request.Inputs))
	}
	if err != nil {
		return nil, nil, err
	}
	for i, size := range raw {
		request.Inputs[i].Parameters["binary_data_size"] = size
	}
	text, err = json.Marshal(request)
	return text, data, cmp.Or(err, p.named(string(name), string(number)))
}

// addData appends binary data of inputs.
func (p *prediction) addData(to *[]byte, content []byte) error {
	*to = append(*to, content...)
	return p.unpackAgain(itemBytes + 2*len(content)) // it is copied
}

// readTensor reads an input, whose typed contents it appends to the data, or an output.
func (p *prediction) readTensor(message []byte, data *[]byte) (t tensorMetadata, err error) {
	var name, datatype, contents []byte
	err = fields{1: keep(&name), 2: keep(&datatype), 3: func(shape []byte) error {
		return eachVarint(shape, func(length uint64) error {
			if len(t.Shape) <= maxDimensions { // more are an error later
				t.Shape = append(t.Shape, int(length))
			}
			return nil
		})
	}, 5: keep(&contents)}.read(message)
	t.Name, t.Datatype = string(name), string(datatype)
	err = cmp.Or(err, value.CheckUTF8(name), value.CheckUTF8(datatype), p.unpackAgain(columnBytes+escapedBytes*(len(name)+len(datatype))))
	of := tensor{datatype: t.Datatype}
	if err != nil || !of.setType() { // an unknown type is an error later
		return t, err
	}
	return t, fields{of.contents: func(content []byte) error {
		switch of.datatype {
		case "FP32", "FP64":
			return p.addData(data, content)
		case "BYTES":
			*data = binary.LittleEndian.AppendUint32(*data, uint32(len(content)))
			return p.addData(data, content)
		}
		return eachVarint(content, func(v uint64) error {
			unused := 64 - 8*of.size
			back := v << unused >> unused
			if of.datatype[0] == 'I' {
				back = uint64(int64(v) << unused >> unused)
			}
			if back != v {
				return fmt.Errorf("%d: expected %s", int64(v), of.datatype)
			}
			return p.addData(data, binary.LittleEndian.AppendUint64(nil, v)[:of.size])
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
