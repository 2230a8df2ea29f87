package secure

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
)

// OAuthBearer is the name of the mechanism.
const OAuthBearer = "OAUTHBEARER"

// oauthBearer authenticates with a token (RFC 7628) from an endpoint, a file or a program.
func oauthBearer() mechanism {
	return mechanism{name: OAuthBearer,
		keys: []string{"username", "password_file", "token_url", "token_ca", "token_scopes", "token_parameters", "token_file", "token_command",
			"extensions"},
		instead: map[string]string{ // as Java clients call it
			"AWS_MSK_IAM": OAuthBearer + " with security.sasl.token_command, which prints a token for MSK"},
		open: func(o SASL, wrong func(key, value, want string)) login {
			b := bearer{extensions: o.extensions(wrong)}
			first := "" // the key that says where the token comes from
			from := func(key, value string, open func() tokens) {
				switch {
				case value == "":
					return
				case first != "":
					wrong(key, value, "no value here, because security.sasl."+first+" is set")
				}
				first, b.token = cmp.Or(first, key), open()
			}
			from("token_url", o.TokenURL, func() tokens { return o.grants(wrong).token })
			from("token_file", o.TokenFile, func() tokens { return o.file(wrong) })
			from("token_command", strings.Join(o.TokenCommand, " "), func() tokens { return o.command(wrong).token })
			if first == "" {
				wrong("token_url", "not set", "the URL of a token endpoint, or a token in security.sasl.token_file or by security.sasl.token_command")
			}
			return login{b, "the user in the token"}
		}}
}

// tokens returns the token for a login.
type tokens func(context.Context) (string, error)

// bearer is the mechanism OAUTHBEARER.
type bearer struct {
	token      tokens
	extensions string // encoded, each after a separator
}

// separator separates the parts of the first message.
const separator = "\x01"

func (b bearer) Name() string { return OAuthBearer }

// Start returns the first message. It has no user name: brokers use the one in the token.
func (b bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, nil, err
	}
	return bearerState{}, []byte("n,," + separator + "auth=Bearer " + token + b.extensions + separator + separator), nil
}

type bearerState struct{}

// Next ends a successful login. A broker that rejects a token sends the reason in a challenge, and expects an empty
// response before it ends the login with an error (RFC 7628, section 3.2.3).
func (bearerState) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	return false, []byte(separator), nil
}

// Characters of extensions, from RFC 7628, section 3.1.
var (
	extensionName  = regexp.MustCompile(`^[A-Za-z]+$`)
	extensionValue = regexp.MustCompile(`^[\x21-\x7e \t\r\n]*$`)
)

// extensions returns the encoded extensions.
func (o SASL) extensions(wrong func(key, value, want string)) string {
	list, ok := pairs(o.Extensions)
	text, seen := "", map[string]bool{"auth": true} // reserved for the token
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

// tokenCharacters matches a bearer token (RFC 6750, section 2.1).
var tokenCharacters = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// file returns the token of a file, which is read again at each login, because the token is renewed by replacing the file.
func (o SASL) file(wrong func(key, value, want string)) tokens {
	read := func() (string, error) {
		content, err := load(o.TokenFile)
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
		if err != nil { // for example while the file is being replaced
			return "", passingError{fmt.Errorf("security.sasl.token_file: %s: expected %w", o.TokenFile, err)}
		}
		return token, nil
	}
}
