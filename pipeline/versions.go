package pipeline

import (
	"context"
	"fmt"
	"strconv"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// Versions are the finished versions of a pipeline, in their order.
func Versions(ctx context.Context, log *kafkalog.Log, name string) ([]schemas.Manifest, error) {
	return newDesk(log, name, nil).versions(ctx)
}

func (d desk) versions(ctx context.Context) (manifests []schemas.Manifest, err error) {
	l, err := d.ledger(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	err = d.each(ctx, d.weights, 0, func(r entry) error {
		m := r.Message
		if m.Kind() != schemas.KindManifest || r.Value == nil || seen[m.Get("run")] {
			return nil
		}
		if end := l.ends[m.Get("run")]; end != nil && end.State != schemas.Done {
			return nil // by a solver that did not know that its run was cancelled
		}
		manifest, err := d.codec.manifest(m)
		if err != nil {
			return nil // a damaged manifest is none: a version counts when it can be read
		}
		seen[manifest.Run] = true
		manifests = append(manifests, *manifest)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	return manifests, nil
}

// Latest names the newest finished version.
const Latest = "latest"

// NoVersionError says that there is no such version.
type NoVersionError struct {
	Want string
	Have int
}

func (e *NoVersionError) Error() string {
	return fmt.Sprintf("no version %q: there are %d", e.Want, e.Have)
}

// version finds one by its number, its run, or as the latest.
func (d desk) version(ctx context.Context, want string) (*schemas.Manifest, error) {
	manifests, err := d.versions(ctx)
	if err != nil {
		return nil, err
	}
	for i := len(manifests) - 1; i >= 0; i-- {
		m := &manifests[i]
		if want == Latest || want == m.Run || want == strconv.Itoa(m.Version) {
			return m, nil
		}
	}
	return nil, &NoVersionError{want, len(manifests)}
}
