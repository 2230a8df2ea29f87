package secure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// command returns the tokens that a program prints, as credential plugins of kubectl do:
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#input-and-output-formats.
func (o SASL) command(wrong func(key, value, want string)) *renewed {
	program, err := exec.LookPath(o.TokenCommand[0])
	if err != nil {
		wrong("token_command", o.TokenCommand[0], "a program that can be executed, and its arguments: "+err.Error())
	}
	return newRenewed(func(ctx context.Context) (*oauth2.Token, error) {
		token, err := run(ctx, program, o.TokenCommand[1:])
		if err != nil { // of a program that depends on other services, and that can be replaced
			return nil, passingError{attempt("run security.sasl.token_command "+program, err)}
		}
		return token, nil
	})
}

// run runs a program that prints a token. Its errors have what the program says on standard error, but not what it prints.
func run(ctx context.Context, program string, arguments []string) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.WaitDelay = time.Second // for the standard output, which a child of the program may keep open
	stdout, stderr := &limited{most: 64 << 10}, &limited{most: 1 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	switch said := strings.Join(strings.Fields(string(stderr.bytes)), " "); {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("no token before the login ended: %w: %s", ctx.Err(), said)
	case err != nil:
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	var printed struct {
		Status struct {
			Token  string    `json:"token"`
			Expiry time.Time `json:"expirationTimestamp"`
		} `json:"status"`
	}
	if err := json.Unmarshal(stdout.bytes, &printed); err != nil || !tokenCharacters.MatchString(printed.Status.Token) {
		return nil, errors.New(`expected an ExecCredential on standard output: {"kind": "ExecCredential", "status": {"token": "…", ` +
			`"expirationTimestamp": "2006-01-02T15:04:05Z"}}`)
	}
	if expiry := printed.Status.Expiry; !expiry.IsZero() && !expiry.After(time.Now()) {
		return nil, fmt.Errorf("the token expired at %s", expiry.Format(time.RFC3339))
	}
	return &oauth2.Token{AccessToken: printed.Status.Token, Expiry: printed.Status.Expiry}, nil
}

// limited keeps the first bytes that are written to it, and passes over the rest.
type limited struct {
	bytes []byte
	most  int
}

func (l *limited) Write(p []byte) (int, error) {
	l.bytes = append(l.bytes, p[:min(len(p), l.most-len(l.bytes))]...)
	return len(p), nil
}
