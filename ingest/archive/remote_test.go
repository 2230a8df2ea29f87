package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

// example is the access key of the examples of Amazon.
var example = secure.Credentials{AccessKey: "AKIAIOSFODNN7EXAMPLE", SecretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}

// Signatures are those of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
func TestSignatures(t *testing.T) {
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ path, query, bytes, want string }{
		{"/test.txt", "", "bytes=0-9", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"/", "lifecycle=", "", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"/", "max-keys=2&prefix=J", "", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		r := httptest.NewRequest(http.MethodGet, "https://examplebucket.s3.amazonaws.com"+c.path+"?"+c.query, nil)
		if c.bytes != "" {
			r.Header.Set("Range", c.bytes)
		}
		sign(r, example, "us-east-1", at)
		got := r.Header.Get("Authorization")
		assert.True(t, strings.HasSuffix(got, ",Signature="+c.want), "%s?%s: %s, expected %s", c.path, c.query, got, c.want)
	}
	assert.Equal(t, escape("a b/ü~*+"), "a%20b%2F%C3%BC~%2A%2B", "")
}

// fakeBucket is a service like S3 with a bucket, in a region of its own.
type fakeBucket struct {
	*httptest.Server
	t *testing.T

	mutex    sync.Mutex
	files    map[string][]byte // by key
	key      secure.Credentials
	region   string
	requests int
	refuse   func(w http.ResponseWriter, r *http.Request) bool // answers instead
}

func newBucket(t *testing.T) *fakeBucket {
	b := &fakeBucket{t: t, files: map[string][]byte{}, key: example, region: "eu-west-7"}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *fakeBucket) with(change func()) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	change()
}

func (b *fakeBucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.requests++; b.refuse != nil && b.refuse(w, r) {
		return
	}
	signed := r.Clone(b.t.Context())
	signed.URL.Host, signed.Header = r.Host, http.Header{}
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	for name := range strings.SplitSeq(list, ";") {
		if v := r.Header.Get(name); v != "" {
			signed.Header.Set(name, v)
		}
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if sign(signed, b.key, b.region, at); err != nil || signed.Header.Get("Authorization") != r.Header.Get("Authorization") {
		w.Header().Set("X-Amz-Bucket-Region", b.region)
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><StringToSign>%s</StringToSign></Error>", r.Header.Get("Authorization"))
		return
	}
	key, _ := strings.CutPrefix(r.URL.Path, "/lake/")
	if r.URL.Path == "/lake" {
		b.list(w, r.URL.Query())
		return
	}
	content, found := b.files[key]
	if found && len(content) == 0 {
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	if !found {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(content)))
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
}

// list answers a page of a list.
func (b *fakeBucket) list(w io.Writer, query url.Values) {
	var keys []string
	for key := range b.files {
		if strings.HasPrefix(key, query.Get("prefix")) && key > query.Get("continuation-token") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	_, _ = io.WriteString(w, "<ListBucketResult>")
	for i, key := range keys {
		if i == 3 {
			_, _ = fmt.Fprintf(w, "<IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>", keys[i-1])
			break
		}
		_, _ = fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size></Contents>", key, len(b.files[key]))
	}
	_, _ = io.WriteString(w, "</ListBucketResult>")
}

// open returns a store that logs in with an access key, and that does not pause.
func (b *fakeBucket) open(t *testing.T, pattern string) store {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	assert.NoError(t, os.WriteFile(file, []byte(b.key.AccessKey+"\n"+b.key.SecretKey+"\n"+b.key.Token), 0o600))
	return open(t, pattern, Options{Endpoint: b.URL, AccessKeyFile: file})
}

func open(t *testing.T, pattern string, o Options) store {
	t.Helper()
	s := assert.Must(openStore(pattern, o))(t)
	s.files.(*remote).wait = func(ctx context.Context, _ int) error { return ctx.Err() }
	return s
}

// A bucket has the same files as a directory, and tables in it are found, also with a token of a session.
func TestBucket(t *testing.T) {
	for _, token := range []string{"", "session/token=="} {
		b := newBucket(t)
		b.key.Token = token
		for _, file := range append(slices.Clone(places), "x y/ü+%&=.avro") {
			b.files["in/"+file] = []byte(path.Base(file))
		}
		b.files["in/directory/"], b.files["inside"] = nil, nil
		s := b.open(t, "s3://lake/in/**")
		delete(b.files, "in/x y/ü+%&=.avro")
		checkPatterns(t, s, "s3://lake/in")
		b.files["in/x y/ü+%&=.avro"] = []byte("ü+%&=.avro")
		f, err := s.Open(t.Context(), "s3://lake/in/x y/ü+%&=.avro")
		assert.True(t, err == nil && f.Size() == 11, "%v %v", f, err)
		got, err := list(t, s, "s3://lake", "none")
		assert.True(t, err == nil && len(got) == 0, "%v %v", got, err)
		for file, want := range tables {
			b.files = map[string][]byte{file: []byte(path.Base(file)), "sales/data/a.parquet": []byte("a.parquet")}
			checkTable(t, s, "s3://lake", file, want)
		}
	}
}

// A file is read in blocks, few of which are requested twice, whatever is read.
func TestBlocks(t *testing.T) {
	b := newBucket(t)
	content := make([]byte, 3*blockSize+12345)
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	b.files["large"], b.files["empty"] = content, nil
	s := b.open(t, "s3://lake/large")
	f, err := s.Open(t.Context(), "s3://lake/large")
	assert.Need(t, err == nil && f.Size() == int64(len(content)), "%v", err)
	b.requests = 0
	got, err := io.ReadAll(struct{ io.Reader }{io.NewSectionReader(f, 0, f.Size())})
	assert.True(t, err == nil && slices.Equal(got, content) && b.requests <= 4, "%d bytes, %d requests, %v", len(got), b.requests, err)
	for _, at := range []int64{0, 1, blockSize - 1, blockSize, 2*blockSize + 5, f.Size() - 1, f.Size(), f.Size() + 1} {
		for _, n := range []int64{1, 100, blockSize, blockSize + 1} {
			p := make([]byte, n)
			want := max(0, min(n, f.Size()-at))
			got, err := f.ReadAt(p, at)
			assert.True(t, int64(got) == want && (err == nil) == (want == n) && slices.Equal(p[:got], content[min(at, f.Size()):][:want]),
				"%d bytes at %d: %d, %v", n, at, got, err)
		}
	}
	assert.Equal(t, assert.Must(s.Open(t.Context(), "s3://lake/empty"))(t).Size(), 0, "")
	b.files["large"] = slices.Concat([]byte{1}, content[1:])
	assert.Fails(t, f.Close(), nil)
	assert.MustFail(f.ReadAt(make([]byte, 9), blockSize))(t, "changed while it was read")
	// Services that are compatible with S3 may not know If-Match, and a cache may answer another part.
	for want, etag := range map[string]string{"changed while it was read": "another", "expected bytes 2097152 to 4194304": ""} {
		b.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			r.Header = http.Header{"Range": {"bytes=0-2097151"}}
			w.Header().Set("ETag", etag)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
			return true
		}
		assert.MustFail(f.ReadAt(make([]byte, 9), blockSize))(t, want)
	}
}

// A list that ends before its last file is an error.
func TestIncompleteLists(t *testing.T) {
	b := newBucket(t)
	for _, answer := range []string{"<Error/>", "<html/>", "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"} {
		b.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
			return assert.Must(io.WriteString(w, answer))(t) > 0
		}
		assert.MustFail(list(t, b.open(t, "s3://lake"), "s3://lake", "**"))(t, "the list of files: ")
	}
}

// Temporary errors are retried, others are not. No error has credentials or what the server says beside the code of the error.
func TestRefusals(t *testing.T) {
	b := newBucket(t)
	b.files["a"] = []byte("a")
	s := b.open(t, "s3://lake/a")
	for _, c := range []struct {
		status, times, requests int
		code, want              string
	}{
		{503, 4, 5, "SlowDown", ""}, {429, 4, 5, "", ""}, {503, 9, 5, "SlowDown", "answers 503 SlowDown"}, {403, 9, 1, "AccessDenied",
			"answers 403 AccessDenied: examples.archive.access_key_file or"}, {404, 9, 1, "NoSuchKey", "answers 404 NoSuchKey: file does not exist"},
		{301, 9, 1, "", "redirects to another address"}, {400, 9, 1, "", "the server answers 400"}, {200, 9, 1, "", ""},
	} {
		b.with(func() {
			left := c.times
			b.requests, b.refuse = 0, func(w http.ResponseWriter, _ *http.Request) bool {
				left--
				w.Header().Set("Location", "https://elsewhere.example/secret")
				if left >= 0 {
					w.WriteHeader(c.status)
					_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>secret</Message></Error>", c.code)
				}
				return left >= 0
			}
		})
		// The first request of a store finds the region.
		s.files.(*remote).region.Store(b.region)
		_, err := s.Open(t.Context(), "s3://lake/a")
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "s3://lake/a: ")) {
			t.Errorf("%d: %v, expected %s", c.status, err, c.want)
		}
		assert.True(t, err == nil || !strings.Contains(err.Error(), "secret") && !strings.Contains(err.Error(), b.key.SecretKey), "%v", err)
		assert.True(t, b.requests == c.requests, "%d: %d requests, expected %d", c.status, b.requests, c.requests)
		assert.True(t, errors.Is(err, fs.ErrNotExist) == (c.status == 404) && errors.Is(err, fs.ErrPermission) == (c.status == 403), "%v", err)
	}
	b.Close()
	_, err := s.Open(t.Context(), "s3://lake/a")
	assert.True(t, err != nil && !strings.Contains(err.Error(), b.URL+"/"), "%v", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.MustFail(s.Open(ctx, "s3://lake/a"))(t, context.Canceled)
}

// A web server has single files. A token is sent to it, and not to where it redirects.
func TestWebServer(t *testing.T) {
	var tokens []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, "elsewhere "+r.Header.Get("Authorization"))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("content"))
	}))
	defer other.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/plain":
			_, _ = io.WriteString(w, strings.Repeat("content", blockSize/4))
		case "/part":
			w.Header().Set("Content-Range", "bytes 0-6/9")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "content")
		default:
			http.NotFound(w, r)
		}
	}))
	defer web.Close()
	command := []string{"echo", `{"status": {"token": "secret-1"}}`}
	for _, c := range []struct {
		path    string
		command []string
		size    int64
		want    string
	}{
		{"/moved", nil, 7, ""}, {"/plain", nil, 7 * blockSize / 4, ""}, {"/plain", command, 7 * blockSize / 4, ""}, {"/none", command, 0, ""},
		{"/moved", command, 0, "answers 302, which redirects"}, {"/part", nil, 0, "the server answers 7 bytes of"},
	} {
		s, sizes := open(t, web.URL+c.path, Options{TokenCommand: c.command}), int64(0)
		for file, err := range s.List(t.Context(), web.URL+c.path) {
			if err == nil {
				sizes += assert.Must(io.Copy(io.Discard, assert.Must(s.Open(t.Context(), file))(t)))(t)
			}
			assert.True(t, (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)),
				"%s: %v, expected %s", c.path, err, c.want)
		}
		assert.True(t, sizes == c.size, "%s: %d bytes, expected %d", c.path, sizes, c.size)
	}
	assert.True(t, !slices.Contains(tokens, "elsewhere Bearer secret-1") && slices.Contains(tokens, "elsewhere ") &&
		slices.Contains(tokens, "Bearer secret-1"), "%q", tokens)
	assert.Equal(t, len(tokens), 11, "requests: a file that comes whole is requested once to list it, and once to read it")
	s := open(t, web.URL+"/plain", Options{TokenCommand: command})
	assert.MustFail(s.Open(t.Context(), other.URL+"/plain"))(t, "another server")
}

// An access key that a program prints signs requests.
func TestKeyCommand(t *testing.T) {
	b := newBucket(t)
	b.files["a"], b.key.Token = []byte("a"), "session"
	printed := fmt.Sprintf(`{"Version": 1, "AccessKeyId": %q, "SecretAccessKey": %q, "SessionToken": "session", "Expiration": %q}`, b.key.AccessKey,
		b.key.SecretKey, time.Now().Add(time.Hour).Format(time.RFC3339))
	s := open(t, "s3://lake/a", Options{Endpoint: b.URL, TokenCommand: []string{"echo", printed}})
	assert.Equal(t, assert.Must(s.Open(t.Context(), "s3://lake/a"))(t).Size(), 1, "")
	s = open(t, "s3://lake/a", Options{Endpoint: b.URL, TokenCommand: []string{"sh", "-c", "echo secret; echo no role >&2; exit 1"}})
	_, err := s.Open(t.Context(), "s3://lake/a")
	assert.True(t, err != nil && !strings.Contains(err.Error(), "secret") &&
		strings.Contains(err.Error(), "examples.archive.token_command") && strings.Contains(err.Error(), "no role"), "%v", err)
}

// Addresses are those of the service.
func TestAddresses(t *testing.T) {
	for _, c := range [][3]string{
		{"", "s3://lake/a b/c+d.avro", "https://s3.eu-1.amazonaws.com/lake/a%20b/c%2Bd.avro"}, {"", "gs://lake", "https://storage.googleapis.com/lake"},
		{"", "https://web.example/a", "https://web.example/a"}, {"http://localhost:9000/base/", "s3://lake/a", "http://localhost:9000/base/lake/a"},
	} {
		u, err := address(c[0], c[1], "eu-1")
		assert.True(t, err == nil && u.String() == c[2], "%v %v", u, err)
	}
}

// Patterns and keys that can't be used are errors before anything is sent, without secrets.
func TestOptions(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	assert.NoError(t, os.WriteFile(key, []byte("hunter2"), 0o600))
	for _, c := range []struct {
		pattern string
		options Options
		want    string
	}{
		{"ftp://server/a", Options{}, "expected a path, or a URL with s3://"},
		{"s3:///a", Options{}, "expected the name of a bucket"},
		{"s3://lake*/a", Options{}, "expected the name of a bucket"},
		{"https://user:hunter2@web.example/a", Options{}, "without *, ?, [ and a user"},
		{"https://web.example/*", Options{}, "does not list files"},
		{"https://web.example/a?sig=hunter2", Options{}, "does not list files"},
		{"http://web.example/a", Options{}, "expected https"},
		{"s3://lake/a", Options{Endpoint: "http://minio:9000"}, "examples.archive.endpoint: expected https"},
		{"s3://lake/a", Options{Endpoint: "https://u:hunter2@minio"}, "examples.archive.endpoint: expected a URL without a user"},
		{"s3://lake/a", Options{Endpoint: "minio"}, "examples.archive.endpoint: not a valid URL"},
		{"s3://lake/a", Options{AccessKeyFile: "none"}, "examples.archive.access_key_file: open none"},
		{"s3://lake/a", Options{AccessKeyFile: key}, "expected the ID of the key"},
		{"s3://lake/a", Options{AccessKeyFile: key, TokenCommand: []string{"echo"}}, "examples.archive.token_command: no value here"},
		{"s3://lake/a", Options{TokenCommand: []string{"./none"}}, "examples.archive.token_command: ./none: expected a program"},
	} {
		_, err := openStore(c.pattern, c.options)
		assert.True(t, err != nil && strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "hunter2"),
			"%s: %v, expected %s", c.pattern, err, c.want)
	}
}
