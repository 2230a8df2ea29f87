package archive

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

// checkURL returns an error if examples and credentials can't be sent to a URL.
func checkURL(text string) error {
	switch u, err := url.Parse(text); {
	case err != nil || u.Host == "":
		return errors.New("not a valid URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("expected a URL without a user and a query: examples.archive.access_key_file and examples.archive.token_command " +
			"log in")
	case !isSecure(u):
		return errors.New("expected https; http is for loopback addresses")
	}
	return nil
}

const anyRegion = "auto" // takes the place of the region in signatures for Google

// openStore returns the store of the files that match a pattern. * and ? match within a name, [ab] matches one of the characters, and **
// matches any number of directories or, at the end, all files. The path of a directory matches all files in it. A hidden name matches only
// if the name in the pattern starts with the same character.
//
// A pattern that begins with s3:// or gs:// and a bucket matches files in the bucket; https:// names a single file. openStore reads the
// access key, and sends no requests.
func openStore(pattern string, o Options) (store, error) {
	scheme, rest, is := strings.Cut(pattern, "://")
	if !is {
		return store{local{}}, nil
	}
	r, region := &remote{endpoint: o.Endpoint, wait: pause}, o.Region
	r.client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	r.client.CheckRedirect = func(to *http.Request, via []*http.Request) error {
		if r.login != nil || len(via) >= 10 || !isSecure(to.URL) { // no credentials go elsewhere
			return http.ErrUseLastResponse
		}
		return nil
	}
	if o.Endpoint != "" {
		if err := checkURL(o.Endpoint); err != nil {
			return store{}, fmt.Errorf("examples.archive.endpoint: %w", err)
		}
	}
	host, _, _ := strings.Cut(rest, "/")
	switch {
	case host == "" || input.IsPattern(host) || strings.Contains(host, "@"):
		return store{}, fmt.Errorf("%s://…: expected the name of a bucket or server without *, ?, [ and a user", scheme)
	case scheme == "s3":
		region = cmp.Or(region, "us-east-1")
	case scheme == "gs":
		region = cmp.Or(region, anyRegion)
	case scheme != "https" && scheme != "http":
		return store{}, input.WholeFile(pattern, errors.New("expected a path, or a URL with s3://, gs:// or https://"))
	case input.IsPattern(pattern):
		return store{}, fmt.Errorf("%s://%s: a web server does not list files: expected the URL of one file without *, ?, [ and a query",
			scheme, host)
	default:
		r.origin = scheme + "://" + host
		if err := checkURL(pattern); err != nil {
			return store{}, fmt.Errorf("%s: %w", r.origin, err)
		}
	}
	r.region.Store(region)
	switch {
	case o.AccessKeyFile != "" && len(o.TokenCommand) > 0:
		return store{}, errors.New("examples.archive.token_command: no value here, because examples.archive.access_key_file is set")
	case o.AccessKeyFile != "":
		key, err := readKey(o.AccessKeyFile)
		if err != nil {
			return store{}, fmt.Errorf("examples.archive.access_key_file: %w", err)
		}
		r.login = func(context.Context) (secure.Credentials, error) { return key, nil }
	case len(o.TokenCommand) > 0:
		command, err := secure.Command("examples.archive.token_command", o.TokenCommand)
		if err != nil {
			return store{}, fmt.Errorf("examples.archive.token_command: %w", err)
		}
		r.login = command
	}
	return store{r}, nil
}

// readKey reads an access key.
func readKey(file string) (secure.Credentials, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return secure.Credentials{}, err
	}
	lines := strings.Fields(string(content))
	if len(lines) < 2 || len(lines) > 3 {
		return secure.Credentials{}, fmt.Errorf("%s: expected the ID of the key, its secret, and a session token if there is one, each in a "+
			"line", file)
	}
	return secure.Credentials{AccessKey: lines[0], SecretKey: lines[1], Token: strings.Join(lines[2:], "")}, nil
}

// remote has the files of buckets (s3:// and gs://), or of a web server (https://), which lists none.
type remote struct {
	endpoint string                                            // of the service with the buckets; "": that of the scheme
	origin   string                                            // of the only web server that gets requests; "": for buckets
	login    func(context.Context) (secure.Credentials, error) // nil: anonymous
	wait     func(ctx context.Context, attempt int) error      // before another attempt
	client   *http.Client
	region   atomic.Value // of buckets, a string
}

// Limits of requests.
const (
	maxAttempts = 5
	attemptTime = time.Minute
	maxAnswer   = 64 << 20
)

// pause waits before another attempt: 0.2 s, and twice as long each time.
func pause(ctx context.Context, attempt int) error {
	select {
	case <-time.After(200 * time.Millisecond << attempt):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// get requests a path, or a list of files. It retries if the answer is a temporary error, or if there is none.
func (r *remote) get(ctx context.Context, path string, query url.Values, header http.Header) (a answer, err error) {
	for attempt := 0; ; attempt++ {
		if a, err = r.once(ctx, path, query, header); ctx.Err() != nil {
			return a, ctx.Err()
		}
		elsewhere := a.header.Get("X-Amz-Bucket-Region")
		switch {
		case err == nil && (a.status/100 == 2 || a.status == http.StatusRequestedRangeNotSatisfiable):
			return a, nil
		case err == nil && elsewhere != "" && r.region.Swap(elsewhere) != any(elsewhere):
		case attempt+1 == maxAttempts,
			err == nil && a.status < 500 && a.status != http.StatusTooManyRequests && a.status != http.StatusRequestTimeout:
			return a, r.explain(path, a, err)
		default:
			if err := r.wait(ctx, attempt); err != nil {
				return a, err
			}
		}
	}
}

// once sends a request.
func (r *remote) once(ctx context.Context, path string, query url.Values, header http.Header) (a answer, err error) {
	if r.origin != "" && !strings.HasPrefix(path, r.origin+"/") {
		return a, errors.New("a file on another server than examples.archive.files")
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	region := r.region.Load().(string)
	at, err := address(r.endpoint, path, region)
	if err != nil {
		return a, err
	}
	at.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // as it is signed
	// The path is sent as it is signed.
	request := (&http.Request{Method: http.MethodGet, URL: at, Header: http.Header{}}).WithContext(ctx)
	maps.Copy(request.Header, header)
	if r.login != nil {
		credentials, err := r.login(ctx)
		if err != nil {
			return a, err
		}
		if credentials.AccessKey != "" {
			sign(request, credentials, region, time.Now())
		} else {
			request.Header.Set("Authorization", "Bearer "+credentials.Token)
		}
	}
	// Otherwise Google decompresses files that are stored compressed, so that a part of the answer is not a part of the stored file.
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := r.client.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok { // without the address, which may have the query
			err = wrapped.Err
		}
		return a, err
	}
	defer response.Body.Close()
	a = answer{status: response.StatusCode, header: response.Header}
	if a.body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1)); err == nil && len(a.body) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d MiB: expected a server that answers ranges", maxAnswer>>20)
	}
	return a, err
}

// explain returns the error of a request. The only part of the answer in it is the error code.
func (r *remote) explain(path string, a answer, err error) error {
	if err != nil {
		return input.WholeFile(path, err)
	}
	var refusal struct{ Code string }
	text := fmt.Sprintf("the server answers %d", a.status)
	if xml.Unmarshal(a.body, &refusal) == nil && refusal.Code != "" {
		text += " " + refusal.Code
	}
	switch {
	case a.status == http.StatusNotFound:
		err = fmt.Errorf("%s: %w", text, fs.ErrNotExist)
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		err = fmt.Errorf("%s: examples.archive.access_key_file or examples.archive.token_command must log in a user who may list and read the "+
			"files: %w", text, fs.ErrPermission)
	case a.status == http.StatusPreconditionFailed:
		err = errors.New("the file changed while it was read: expected files that are complete")
	case a.status/100 == 3:
		err = fmt.Errorf("%s, which redirects to another address: set examples.archive.files and examples.archive.endpoint to that", text)
	default:
		err = errors.New(text)
	}
	return input.WholeFile(path, err)
}

// listing is a page of a list of files, as S3 and Google return it.
type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"` // any other answer is an error
	Contents              []struct{ Key string }
	IsTruncated           bool
	NextContinuationToken string
}

// Below implements files.
func (r *remote) Below(ctx context.Context, path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if r.origin != "" {
			if _, err := r.Open(ctx, path); !errors.Is(err, fs.ErrNotExist) {
				yield(path, err)
			}
			return
		}
		bucket, prefix := splitBucket(path)
		query := url.Values{"list-type": {"2"}, "prefix": {prefix}}
		for {
			a, err := r.get(ctx, bucket, query, nil)
			var page listing
			if err == nil {
				if err = xml.Unmarshal(a.body, &page); err == nil && page.IsTruncated &&
					slices.Contains([]string{"", query.Get("continuation-token")}, page.NextContinuationToken) {
					err = errors.New("the server does not say how to go on: expected version 2 of lists of S3")
				}
				if err != nil {
					err = input.WholeFile(path, fmt.Errorf("the list of files: %w", err))
				}
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, c := range page.Contents {
				below := prefix == "" || c.Key == prefix || strings.HasPrefix(c.Key, strings.TrimSuffix(prefix, "/")+"/")
				if below && !strings.HasSuffix(c.Key, "/") && !yield(bucket+"/"+c.Key, nil) {
					return
				}
			}
			if !page.IsTruncated {
				return
			}
			query.Set("continuation-token", page.NextContinuationToken)
		}
	}
}

func (r *remote) checkAbove(ctx context.Context, folder string) error {
	if r.origin != "" {
		return nil
	}
	bucket, _ := splitBucket(folder)
	for at := strings.TrimSuffix(folder, "/"); len(at) >= len(bucket); at = at[:strings.LastIndex(at, "/")] {
		for _, marker := range input.LakeFolders() {
			for file, err := range r.Below(ctx, at+"/"+marker) {
				if errors.Is(err, fs.ErrPermission) { // permission to read files does not include listing the directories above
					break
				}
				if err == nil {
					err = input.CheckLake(at, strings.TrimPrefix(file, at+"/"))
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Open implements files. It requests the first block.
func (r *remote) Open(ctx context.Context, path string) (openFile, error) {
	f := &remoteFile{from: r, ctx: ctx, path: path, size: -1, blocks: map[int64][]byte{}}
	first, err := f.fetch(0)
	if err != nil {
		return openFile{}, err
	}
	f.blocks[0] = first
	return openFile{io.NewSectionReader(f, 0, f.size), f}, nil
}

// remoteFile reads a file in blocks. It keeps blocks that may be read again: a block that was read to its end is dropped.
type remoteFile struct {
	from *remote
	ctx  context.Context // of the file, whose reads end with it
	path string
	size int64  // -1: not known yet
	etag string // "": unknown

	mutex  sync.Mutex
	blocks map[int64][]byte
}

// Size of a block, and maximum number of blocks that a file keeps.
const (
	blockSize = 2 << 20
	maxBlocks = 32
)

// fetch requests a block of the file.
func (f *remoteFile) fetch(i int64) (block []byte, err error) {
	from, to := i*blockSize, (i+1)*blockSize
	if f.size >= 0 {
		to = min(to, f.size)
	}
	header := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", from, to-1)}}
	if f.etag != "" {
		header["If-Match"] = []string{f.etag}
	}
	a, err := f.from.get(f.ctx, f.path, nil, header)
	if err != nil {
		return nil, err
	}
	block, begin, size := a.body, from, int64(len(a.body))
	switch {
	case a.status == http.StatusOK: // all of it: the other blocks need no request
		for at := int64(0); at < size; at += blockSize {
			f.blocks[at/blockSize] = a.body[at:min(at+blockSize, size)]
		}
		block = f.blocks[i]
	case a.status == http.StatusRequestedRangeNotSatisfiable && from == 0: // an empty file
		block, size = nil, 0
	default:
		_, err = fmt.Sscanf(a.header.Get("Content-Range"), "bytes %d-%d/%d", &begin, new(int64), &size)
	}
	etag := a.header.Get("Etag")
	if f.size < 0 && err == nil {
		if f.size = size; !strings.HasPrefix(etag, "W/") {
			f.etag = etag
		}
	}
	if f.etag != "" && etag != "" && etag != f.etag { // of a server that knows no If-Match
		return nil, f.from.explain(f.path, answer{status: http.StatusPreconditionFailed}, nil)
	}
	if err != nil || begin != from || size != f.size || int64(len(block)) != min(to, size)-from {
		return nil, input.WholeFile(f.path, fmt.Errorf("the server answers %d bytes of %q: expected bytes %d to %d", len(block),
			a.header.Get("Content-Range"), from, to))
	}
	return block, nil
}

// ReadAt implements io.ReaderAt.
func (f *remoteFile) ReadAt(p []byte, at int64) (n int, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for n < len(p) {
		from := at + int64(n)
		if from >= f.size {
			return n, io.EOF
		}
		i := from / blockSize
		block, kept := f.blocks[i]
		if !kept {
			if block, err = f.fetch(i); err != nil {
				return n, err
			}
			for other := range f.blocks {
				if len(f.blocks) >= maxBlocks {
					delete(f.blocks, other)
				}
			}
			f.blocks[i] = block
		}
		n += copy(p[n:], block[from-i*blockSize:])
		if end := (i + 1) * blockSize; at+int64(n) >= end && end < f.size {
			delete(f.blocks, i)
		}
	}
	return n, nil
}

// Close implements io.Closer.
func (f *remoteFile) Close() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	clear(f.blocks)
	return nil
}

// address returns the URL of a path: of a file, or of a bucket. endpoint is the service with the bucket; "": that of the scheme.
func address(endpoint, path, region string) (*url.URL, error) {
	scheme, rest, _ := strings.Cut(path, "://")
	switch {
	case scheme == "https" || scheme == "http":
		return url.Parse(path)
	case endpoint == "" && scheme == "gs":
		endpoint = "https://storage.googleapis.com"
	case endpoint == "":
		endpoint = "https://s3." + region + ".amazonaws.com"
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	names := strings.Split(rest, "/")
	for i, name := range names {
		names[i] = escape(name)
	}
	below := strings.TrimSuffix(u.Path, "/") + "/"
	u.Path, u.RawPath = below+rest, below+strings.Join(names, "/")
	return u, nil
}

// splitBucket returns the bucket of a path, with its scheme, and the key of the file.
func splitBucket(path string) (bucket, key string) {
	scheme, rest, _ := strings.Cut(path, "://")
	bucket, key, _ = strings.Cut(rest, "/")
	return scheme + "://" + bucket, key
}

// isSecure reports whether credentials and examples may be sent to a URL.
func isSecure(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && secure.IsLoopback(u.Hostname())
}

// escape escapes all characters except unreserved ones, as in canonical requests.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// sign signs a request without a body, with all of its headers
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
func sign(r *http.Request, c secure.Credentials, region string, now time.Time) {
	empty := sha256.Sum256(nil)
	at := now.UTC().Format("20060102T150405Z")
	r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(empty[:]))
	r.Header.Set("X-Amz-Date", at)
	if c.Token != "" {
		r.Header.Set("X-Amz-Security-Token", c.Token)
	}
	headers := map[string]string{"host": r.URL.Host}
	for name := range r.Header {
		headers[strings.ToLower(name)] = strings.TrimSpace(r.Header.Get(name))
	}
	names, lines := slices.Sorted(maps.Keys(headers)), ""
	for _, name := range names {
		lines += name + ":" + headers[name] + "\n"
	}
	signed := strings.Join(names, ";")
	canonical := sha256.Sum256([]byte(strings.Join([]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, lines, signed,
		hex.EncodeToString(empty[:])}, "\n")))
	scope := strings.Join([]string{at[:len("20060102")], region, "s3", "aws4_request"}, "/")
	key := []byte("AWS4" + c.SecretKey)
	for part := range strings.SplitSeq(scope, "/") {
		key = sum(key, part)
	}
	signature := sum(key, strings.Join([]string{"AWS4-HMAC-SHA256", at, scope, hex.EncodeToString(canonical[:])}, "\n"))
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%x", c.AccessKey, scope,
		signed, signature))
}

func sum(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
