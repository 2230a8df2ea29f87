//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Go program asks the kernel for the time without the C library, so no library that is loaded before it can change that. The program of
// processes with a wrong clock is built with another time.Now, by an overlay on the standard library.

// maxSkew is by how much a clock is wrong. Brokers refuse messages from more than an hour ahead (message.timestamp.after.max.ms).
const maxSkew = 45 * time.Minute

// skewVariable is the environment variable that says by how many seconds the clock of a process is ahead. Those that begin with
// STAGEWISE_ name keys of the configuration.
const skewVariable = "CHAOS_SKEW"

const skewSource = `package time

import "syscall"

var chaosSkew = func() (seconds int64) {
	text, _ := syscall.Getenv("` + skewVariable + `")
	sign := int64(1)
	if text != "" && text[0] == '-' {
		sign, text = -1, text[1:]
	}
	for _, digit := range []byte(text) {
		seconds = 10*seconds + int64(digit-'0')
	}
	return sign * seconds
}()
`

// buildSkewed builds the program with a clock that is ahead by skewVariable, in a folder, and returns its file.
func buildSkewed(ctx context.Context, folder string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	content, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	const asked = "\tsec, nsec, mono := runtimeNow()\n"
	if n := strings.Count(string(content), asked); n != 1 {
		return "", fmt.Errorf("%s asks for the time in %d places, expected one: %q", original, n, asked)
	}
	changed, added := filepath.Join(folder, "time.go.txt"), filepath.Join(folder, "skew.go.txt")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		original: changed, filepath.Join(filepath.Dir(original), "chaos_skew.go"): added}})
	if err != nil {
		return "", err
	}
	file, program := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "stagewise-skewed")
	for name, text := range map[string]string{
		changed: strings.Replace(string(content), asked, asked+"\tsec += chaosSkew\n", 1), added: skewSource, file: string(overlay),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-overlay", file, "-o", program, "./cmd/stagewise").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program with a wrong clock: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return program, nil
}

// skew returns the environment of a process whose clock is ahead.
func skew(by time.Duration) []string {
	return append(os.Environ(), skewVariable+"="+strconv.Itoa(int(by/time.Second)))
}
