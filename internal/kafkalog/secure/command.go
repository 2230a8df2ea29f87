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
	return printed("security.sasl.token_command", program, o.TokenCommand[1:], false)
}

// Credentials log in to a service that keeps files.
type Credentials struct {
	AccessKey, SecretKey string // of S3; "": the token is enough
	Token                string // a bearer token, or of a session of the access key
}

// Command returns the current credentials that a program prints, as in `security.sasl.token_command`, or as programs for
// `credential_process` of AWS do: https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html. key is its key of the
// configuration.
func Command(key string, command []string) (func(context.Context) (Credentials, error), error) {
	program, err := exec.LookPath(command[0])
	if err != nil {
		return nil, fmt.Errorf("%s: expected a program that can be executed, and its arguments: %w", command[0], err)
	}
	r := printed(key, program, command[1:], true)
	return func(ctx context.Context) (Credentials, error) {
		token, err := r.get(ctx)
		if err != nil {
			return Credentials{}, err
		}
		access, _ := token.Extra(accessKey).(string)
		secret, _ := token.Extra(secretKey).(string)
		return Credentials{access, secret, token.AccessToken}, nil
	}, nil
}

// Values of a token that belongs to an access key.
const (
	accessKey = "AccessKeyId"
	secretKey = "SecretAccessKey"
)

// printed returns what a program prints: a token, or if keys is true also an access key.
func printed(key, program string, arguments []string, keys bool) *renewed {
	return newRenewed(func(ctx context.Context) (*oauth2.Token, error) {
		token, err := run(ctx, program, arguments, keys)
		if err != nil { // of a program that depends on other services, and that can be replaced
			return nil, passingError{attempt("run "+key+" "+program, err)}
		}
		return token, nil
	})
}

// run runs a program that prints a token or, if keys is true, an access key. Its errors have what the program says on standard error, but
// not what it prints.
func run(ctx context.Context, program string, arguments []string, keys bool) (*oauth2.Token, error) {
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
		AccessKeyID, SecretAccessKey, SessionToken string
		Expiration                                 time.Time
	}
	err = json.Unmarshal(stdout.bytes, &printed)
	token := &oauth2.Token{AccessToken: printed.Status.Token, Expiry: printed.Status.Expiry}
	switch {
	case keys && err == nil && printed.AccessKeyID != "" && printed.SecretAccessKey != "":
		token = (&oauth2.Token{AccessToken: printed.SessionToken, Expiry: printed.Expiration}).WithExtra(map[string]any{
			accessKey: printed.AccessKeyID, secretKey: printed.SecretAccessKey})
	case err != nil || !tokenCharacters.MatchString(token.AccessToken):
		return nil, errors.New(`expected an ExecCredential on standard output: {"kind": "ExecCredential", "status": {"token": "…", ` +
			`"expirationTimestamp": "2006-01-02T15:04:05Z"}}`)
	}
	if !token.Expiry.IsZero() && !token.Expiry.After(time.Now()) {
		return nil, fmt.Errorf("the token expired at %s", token.Expiry.Format(time.RFC3339))
	}
	return token, nil
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
