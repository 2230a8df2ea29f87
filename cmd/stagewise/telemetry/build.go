package telemetry

import "runtime/debug"

// Build returns the version of this program, and the revision that it was built from; empty if that is not known.
func Build() (version, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)", ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return info.Main.Version, revision
}
