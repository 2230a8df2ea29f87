package archive

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

// remote has the files of buckets (s3:// and gs://), or of a web server (https://), which lists none.
type remote struct {
	endpoint string                                            // of the service with the buckets; "": that of the scheme
	origin   string                                            // of the only web server that gets requests; "": for buckets
	login    func(context.Context) (secure.Credentials, error) // nil: anonymous
	wait     func(ctx context.Context, attempt int) error      // before another attempt
	now      func() time.Time
	client   *http.Client

	mutex  sync.Mutex
	region string // of buckets
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

// followRedirects lets a client follow redirects to https, unless requests have credentials.
func (r *remote) followRedirects(to *http.Request, via []*http.Request) error {
	if r.login != nil || len(via) >= 10 || !isSecure(to.URL) {
		return http.ErrUseLastResponse
	}
	return nil
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
		case err == nil && elsewhere != "" && r.moveTo(elsewhere):
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

// moveTo changes the region of buckets, and reports whether it has changed.
func (r *remote) moveTo(region string) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	moved := r.region != region
	r.region = region
	return moved
}

// once sends a request.
func (r *remote) once(ctx context.Context, path string, query url.Values, header http.Header) (a answer, err error) {
	if r.origin != "" && !strings.HasPrefix(path, r.origin+"/") {
		return a, errors.New("a file on another server than examples.archive.files")
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	r.mutex.Lock()
	region := r.region
	r.mutex.Unlock()
	at, err := address(r.endpoint, path, region)
	if err != nil {
		return a, err
	}
	at.RawQuery = canonicalQuery(query)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return a, err
	}
	request.URL = at // as it is signed
	for name, values := range header {
		request.Header[name] = values
	}
	if r.login != nil {
		credentials, err := r.login(ctx)
		if err != nil {
			return a, err
		}
		if credentials.AccessKey != "" {
			sign(request, credentials, region, r.now())
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

func (r *remote) above(path string) (folders []string, _ error) {
	if r.origin != "" {
		return nil, nil
	}
	bucket, _ := splitBucket(path)
	for at := strings.TrimSuffix(path, "/"); len(at) >= len(bucket); at = at[:strings.LastIndex(at, "/")] {
		folders = append(folders, at)
	}
	return folders, nil
}

// Open implements files. It requests the first block.
func (r *remote) Open(ctx context.Context, path string) (openFile, error) {
	f := &remoteFile{from: r, ctx: ctx, path: path, size: -1, blocks: map[int64][]byte{}}
	first, err := f.fetch(0, blockSize)
	if err != nil {
		return nil, err
	}
	f.blocks[0] = first
	return f, nil
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

// fetch requests a part of the file.
func (f *remoteFile) fetch(from, to int64) ([]byte, error) {
	header := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", from, to-1)}}
	if f.etag != "" {
		header["If-Match"] = []string{f.etag}
	}
	a, err := f.from.get(f.ctx, f.path, nil, header)
	if err != nil {
		return nil, err
	}
	whole, begin, size := a.body, int64(0), int64(0)
	_, err = fmt.Sscanf(a.header.Get("Content-Range"), "bytes %d-%d/%d", &begin, new(int64), &size)
	switch {
	case a.status == http.StatusOK: // all of it
		size, err = int64(len(a.body)), nil
		a.body, begin = a.body[min(from, size):min(to, size)], from
	case a.status == http.StatusRequestedRangeNotSatisfiable && from == 0: // an empty file
		a.body, size, err = nil, 0, nil
	}
	if f.size < 0 && err == nil {
		f.size = size
		if f.etag = a.header.Get("Etag"); strings.HasPrefix(f.etag, "W/") {
			f.etag = ""
		}
	}
	if etag := a.header.Get("Etag"); f.etag != "" && etag != "" && etag != f.etag { // of a server that knows no If-Match
		return nil, f.from.explain(f.path, answer{status: http.StatusPreconditionFailed}, nil)
	}
	if err != nil || begin != from || size != f.size || int64(len(a.body)) != min(to, size)-from {
		return nil, input.WholeFile(f.path, fmt.Errorf("the server answers %d bytes of %q: expected bytes %d to %d", len(a.body),
			a.header.Get("Content-Range"), from, to))
	}
	for at := int64(0); a.status == http.StatusOK && at < size; at += blockSize { // the other blocks need no request
		f.blocks[at/blockSize] = whole[at:min(at+blockSize, size)]
	}
	return a.body, nil
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
			if block, err = f.fetch(i*blockSize, min((i+1)*blockSize, f.size)); err != nil {
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

func (f *remoteFile) Size() int64 { return f.size }

// Close implements io.Closer.
func (f *remoteFile) Close() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	clear(f.blocks)
	return nil
}
