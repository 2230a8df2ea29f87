package archive

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

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
	address, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && address.IsLoopback())
}

// escape escapes all characters except unreserved ones, as in canonical requests.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// canonicalQuery returns a query, sorted by name.
func canonicalQuery(query url.Values) string { return strings.ReplaceAll(query.Encode(), "+", "%20") }

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
