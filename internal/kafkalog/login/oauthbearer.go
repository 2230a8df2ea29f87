package login

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
)

// OAuthBearer is the name of the mechanism.
const OAuthBearer = "OAUTHBEARER"

// oauthBearer shows a token (RFC 7628), which an endpoint grants or a file has.
func oauthBearer() mechanism {
	return mechanism{name: OAuthBearer,
		keys: []string{"username", "password_file", "token_url", "token_ca", "token_scopes", "token_parameters", "token_file", "extensions"},
		open: func(o Options, wrong func(key, value, want string)) Login {
			b := bearer{extensions: o.extensions(wrong)}
			switch {
			case o.TokenURL != "" && o.TokenFile != "":
				wrong("token_file", o.TokenFile, "no value here, because security.sasl.token_url is set")
			case o.TokenURL != "":
				b.token = o.grants(wrong).token
			case o.TokenFile != "":
				b.token = o.file(wrong)
			default:
				wrong("token_url", "not set", "the URL of a token endpoint, or a token in security.sasl.token_file")
			}
			return Login{b, "the user in the token"}
		}}
}

// tokens returns the token of the next login.
type tokens func(context.Context) (string, error)

// bearer is the mechanism OAUTHBEARER.
type bearer struct {
	token      tokens
	extensions string // as they follow a token: each with its separator before it
}

// separator is what separates the parts of a login.
const separator = "\x01"

func (b bearer) Name() string { return OAuthBearer }

// Start returns the first message. It names no user: brokers take the one in the token.
func (b bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, nil, err
	}
	return bearerState{}, []byte("n,," + separator + "auth=Bearer " + token + b.extensions + separator + separator), nil
}

type bearerState struct{}

// Next ends a login that succeeds. A broker that refuses a token says why in a challenge, and wants an empty answer before it ends the
// login with an error (RFC 7628, section 3.2.3).
func (bearerState) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	return false, []byte(separator), nil
}

// The characters of extensions, of RFC 7628, section 3.1.
var (
	extensionName  = regexp.MustCompile(`^[A-Za-z]+$`)
	extensionValue = regexp.MustCompile(`^[\x21-\x7e \t\r\n]*$`)
)

// extensions returns the extensions as a login has them.
func (o Options) extensions(wrong func(key, value, want string)) string {
	list, ok := pairs(o.Extensions)
	text, seen := "", map[string]bool{"auth": true} // which is the token's
	for _, e := range list {
		ok = ok && extensionName.MatchString(e[0]) && extensionValue.MatchString(e[1]) && !seen[e[0]]
		seen[e[0]] = true
		text += separator + e[0] + "=" + e[1]
	}
	if !ok {
		wrong("extensions", strings.Join(o.Extensions, ", "),
			"NAME=VALUE for each extension, of letters and of printable ASCII, each name once, and none auth")
	}
	return text
}

// tokenCharacters are those of a bearer token (RFC 6750, section 2.1).
var tokenCharacters = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// file returns the token of a file, as it is at each login: whoever renews the token replaces the file.
func (o Options) file(wrong func(key, value, want string)) tokens {
	read := func() (string, error) {
		content, err := Load(o.TokenFile)
		if err != nil {
			return "", fmt.Errorf("a file that can be read: %w", err)
		}
		token := strings.TrimSpace(firstLine(content))
		if !tokenCharacters.MatchString(token) {
			return "", fmt.Errorf("a file with a token in its first line")
		}
		return token, nil
	}
	if _, err := read(); err != nil {
		wrong("token_file", o.TokenFile, err.Error())
	}
	return func(context.Context) (string, error) {
		token, err := read()
		if err != nil { // as while the file is being replaced
			return "", passingError{fmt.Errorf("security.sasl.token_file: %s: expected %w", o.TokenFile, err)}
		}
		return token, nil
	}
}
