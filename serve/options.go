package serve

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
)

// Options are the keys under `serve`.
type Options struct {
	Listen      string // host:port
	Certificate string `yaml:"certificate_file" path:"file"` // PEM, with its intermediate certificates; empty: HTTP without TLS
	Key         string `yaml:"key_file" path:"file"`         // PEM, not encrypted
	// file whose first line is the bearer token of requests; empty: none
	TokenFile   string        `path:"file"`
	Open        bool          // whether it may listen beyond loopback addresses without TLS and a token
	MaxBody     option.Bytes  // bytes of a request
	MaxRows     int           // rows of a request
	Memory      option.Bytes  // total bytes of the bodies of all requests, of their rows and of their answers
	Connections int           `yaml:"max_connections"` // maximum number of connections
	Drain       time.Duration // time for which requests are answered after SIGTERM
	Timeout     time.Duration // for a request to arrive, to wait for a core, and for its response to be computed and sent
	MaxAge      time.Duration // maximum age of a version that counts as ready; 0: unlimited
	MaxSilence  time.Duration // maximum time without contact to the brokers while ready
	Answers     AnswersOptions
}

// Defaults returns the options of an empty configuration.
func Defaults() Options {
	return Options{Listen: "127.0.0.1:8474", MaxBody: 16 << 20, MaxRows: 10_000, Memory: 256 << 20, Connections: 1024,
		Timeout: 10 * time.Second, Drain: 5 * time.Second, MaxSilence: time.Minute, Answers: AnswersOptions{Sample: 1}}
}

// Keys documents the keys under `serve`.
func Keys() []option.Key {
	atLeastOne := option.Range(1, math.Inf(1), "at least 1")
	positive, notNegative := option.Range(1, math.Inf(1), "a time above 0"), option.Range(0, math.Inf(1), "a time of at least 0")
	pair := "a certificate in serve.certificate_file, and its key in serve.key_file"
	return []option.Key{
		{Name: "listen", Meaning: "`host:port` that `serve` listens on. Beyond the loopback interface, it requires " +
			"`serve.certificate_file` and `serve.token_file`. See [serving](serving.md)"},
		{Name: "certificate_file", Needs: map[string]string{"key_file": pair},
			Meaning: "PEM file with the server's certificate and its intermediate certificates. Empty: HTTP without TLS"},
		{Name: "key_file", Needs: map[string]string{"certificate_file": pair},
			Meaning: "PEM file with the private key of the certificate, not encrypted"},
		{Name: "token_file", Meaning: "file whose first line is the bearer token of all requests. Empty: no token is required"},
		{Name: "open", Meaning: "allow listening beyond the loopback interface without TLS or a token, such as behind a proxy that " +
			"provides them"},
		{Name: "max_body", Rule: atLeastOne, Meaning: "maximum size of a request"},
		{Name: "max_rows", Rule: atLeastOne, Meaning: "maximum number of rows in a request"},
		{Name: "memory", Meaning: "maximum total bytes of all request bodies, of their rows when unpacked, and of answers"},
		{Name: "max_connections", Rule: atLeastOne, Meaning: "maximum number of concurrent connections. Beyond it, the " +
			"connection that has been idle for longest is closed; those that have shown the token come last"},
		{Name: "timeout", Rule: positive, Meaning: "time limit for a request to arrive, to wait for a core, for its answer to be " +
			"computed, and to be sent"},
		{Name: "drain", Rule: notNegative, Meaning: "time after SIGTERM in which `/ready` is 503 and requests are still answered"},
		{Name: "max_age", Rule: notNegative, Meaning: "maximum age of a version before `/ready` fails. 0: any age"},
		{Name: "max_silence", Rule: positive, Meaning: "maximum time without an answer from the brokers before `/ready` fails"},
		{Name: "answers.topic", Rule: option.Topic(), Meaning: "topic to which `serve` writes the rows that it predicts, with the " +
			"prediction: see [answers](serving.md#answers-on-a-topic). None: not written"},
		{Name: "answers.sample", Rule: option.Range(math.SmallestNonzeroFloat64, 1, "a fraction, above 0 and at most 1"),
			Meaning: "fraction of the requests whose answers are written, chosen by a hash of the request's id"},
	}
}

// Check returns the invalid keys under `serve`, with what is expected. It leaves the files to [New]: other commands, on
// other machines, do not need them.
func (o *Options) Check() option.Problems {
	problems := option.Check(Keys(), *o, Defaults())
	_, _, err := net.SplitHostPort(o.Listen)
	switch {
	case err != nil:
		problems.Add("listen", o.Listen, "host:port, such as 127.0.0.1:8474")
	case kafkalog.IsLoopback(o.Listen) || o.Open:
	case o.Certificate == "":
		problems.Add("listen", o.Listen, "serve.certificate_file and serve.token_file too, because other machines "+
			"can reach it; or serve.open: true")
	case o.TokenFile == "":
		problems.Add("listen", o.Listen, "serve.token_file too, because other machines can reach it; or serve.open: true")
	}
	if o.Memory < o.MaxBody {
		problems.Add("memory", o.Memory, fmt.Sprintf("at least serve.max_body, %s", o.MaxBody))
	}
	return problems
}

// AnswersOptions are the keys under `serve.answers`.
type AnswersOptions struct {
	Topic  string  // "": answers are not written
	Sample float64 // fraction of requests whose answers are written, above 0 and at most 1
}

// certificate reads the certificate of the server. The error is a [option.Problem].
func (o *Options) certificate() (*tls.Certificate, error) {
	certificate, err := tls.LoadX509KeyPair(o.Certificate, o.Key)
	if err != nil {
		return nil, option.Problem{Key: "serve.certificate_file", Value: o.Certificate, Want: "a certificate and its key, as PEM (" +
			err.Error() + ")"}
	}
	return &certificate, nil
}

// shortestToken is the minimum length of a token: 16 random characters can't be guessed.
const shortestToken = 16

// token reads the token required in requests. The error is a [option.Problem].
func (o *Options) token() (digest, error) {
	problem := option.Problem{Key: "serve.token_file", Value: o.TokenFile,
		Want: fmt.Sprintf("a file with a token of at least %d characters in its first line", shortestToken)}
	content, err := os.ReadFile(o.TokenFile)
	if err != nil {
		problem.Want += " (" + err.Error() + ")"
		return digest{}, problem
	}
	token, _, _ := strings.Cut(string(content), "\n")
	token = strings.TrimSpace(token)
	if at := strings.IndexFunc(token, func(c rune) bool { return c < ' ' || c > '~' }); at >= 0 { // no client could send it
		problem.Want += fmt.Sprintf(", of printable ASCII: byte %d is %#02x", at, token[at])
		return digest{}, problem
	}
	if len(token) < shortestToken {
		return digest{}, problem
	}
	return sha256.Sum256([]byte(token)), nil
}

// credential is the content of files that are replaced while the server runs, such as expiring certificates. It is safe
// for concurrent use.
type credential[T any] struct {
	files   []string
	read    func() (T, error)
	notice  func(text string) // called with messages for the operator
	expires func(T) time.Time // nil: never

	mutex sync.Mutex
	value T
	told  bool   // that the value has expired
	state string // of the files at the last read
	wrong error  // error of the current files; nil: they are valid
}

// newCredential returns a credential from files. The error is that of read.
func newCredential[T any](read func() (T, error), notice func(text string), files ...string) (*credential[T], error) {
	c := &credential[T]{files: files, read: read, notice: notice}
	c.state = c.current()
	c.value, c.wrong = read()
	return c, c.wrong
}

// get returns the content of the files. While they are invalid, as when one of two is replaced before the other, it returns the previous
// content and their error. A nil credential has no content.
func (c *credential[T]) get() (none T, err error) {
	if c == nil {
		return none, nil
	}
	now := c.current()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if now != c.state { // also of invalid files, which are not read again until they change
		value, err := c.read()
		switch {
		case err != nil:
			c.notice(fmt.Sprintf("the previous credentials stay in use: %v", err))
		case c.wrong != nil:
			c.notice(fmt.Sprintf("%s can be used again", c.files[0]))
		}
		if err == nil {
			c.value, c.told = value, false
		}
		c.state, c.wrong = now, err
	}
	if c.expires != nil && !c.told && time.Now().After(c.expires(c.value)) {
		c.told = true
		c.notice(fmt.Sprintf("%s expired at %s: replace it", c.files[0], c.expires(c.value).UTC().Format(time.RFC3339)))
	}
	return c.value, c.wrong
}

// current returns the state of the files.
func (c *credential[T]) current() (state string) {
	for _, file := range c.files {
		if info, err := os.Stat(file); err == nil {
			state += fmt.Sprintln(file, info.ModTime().UnixNano(), info.Size())
		}
	}
	return state
}
