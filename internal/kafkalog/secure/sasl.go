package secure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	franz "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/xdg-go/stringprep"

	"github.com/stagewise/stagewise/internal/option"
)

// SASL are the settings under security.sasl. The zero value means no authentication.
type SASL struct {
	Mechanism    string // the name of one of the mechanisms; "": no SASL
	Username     string // the user name, or the client id at a token endpoint
	Password     Secret // the password, or the client secret. Without a Mechanism it is ignored.
	PasswordFile string `path:"file"` // a file with the password in its first line
	TokenURL     string // the endpoint that grants tokens to Username and Password (RFC 6749, section 4.4)
	// TokenCA is a PEM file with the CA certificates that sign the certificate of TokenURL; "": the system's.
	TokenCA string `path:"file"`
	// TokenScopes and TokenParameters are sent to the endpoint. A parameter is NAME=VALUE.
	TokenScopes     []string
	TokenParameters []string
	TokenFile       string   `path:"file"` // a file with a token, which is renewed externally
	TokenCommand    []string // a program and its arguments. It prints a token and its expiry.
	Extensions      []string // sent to brokers with a token (RFC 7628, section 3.1), each NAME=VALUE
}

// saslKeys documents the keys under security.sasl.
func saslKeys() []option.Key {
	quoted := strings.Split("`"+strings.Join(names(), "`,`")+"`", ",")
	return []option.Key{
		{Name: "mechanism", Meaning: "mechanism: " + english.WordSeries(quoted, "or") + ". None: no login. " +
			"See [secured clusters](security.md#mechanisms)"},
		{Name: "username", Meaning: "the user name; at the endpoint `security.sasl.token_url`, the id of the client"},
		{Name: "password", Meaning: "the password, or the secret of the client, only from the environment variable " +
			"`STAGEWISE_SECURITY_SASL_PASSWORD`, which is not parsed as YAML"},
		{Name: "password_file", Meaning: "file whose first line is the password. Set this or the environment variable"},
		{Name: "token_url", Meaning: "token endpoint for login by token: it issues tokens to `security.sasl.username` and the " +
			"password (client credentials grant)"},
		{Name: "token_ca", Meaning: "PEM file with the CA certificates that sign the endpoint's certificate. None: the CAs of the system"},
		{Name: "token_scopes", Meaning: "scopes to request at the endpoint"},
		{Name: "token_parameters", Meaning: "additional parameters of the token request, each `NAME=VALUE`, such as `audience=kafka`"},
		{Name: "token_file", Meaning: "file with a token, read at each login. Set one of this, `security.sasl.token_url` and " +
			"`security.sasl.token_command`"},
		{Name: "token_command", Meaning: "program and arguments, each an element of the list, that print a token and its expiry, as credential " +
			"plugins of kubectl do"},
		{Name: "extensions", Meaning: "SASL extensions sent with the token, each `NAME=VALUE`, such as `logicalCluster=lkc-1`"},
	}
}

// passingError is a login error that may be temporary. It is a [net.Error], like connection errors, which are also
// retried.
type passingError struct{ error }

func (e passingError) Unwrap() error   { return e.error }
func (e passingError) Timeout() bool   { return false }
func (e passingError) Temporary() bool { return true }

// login is the login of a connection. The zero value means no authentication.
type login struct {
	sasl.Mechanism        // nil: no login
	Principal      string // name in ACLs, such as "User:alice"
}

// mechanism is a SASL mechanism.
type mechanism struct {
	name    string
	keys    []string          // accepted keys, besides its name
	instead map[string]string // by mechanism of other clients: the settings that replace it
	// open returns the login, and calls wrong with each invalid setting.
	open func(o SASL, wrong func(key string, value any, want string)) login
}

// mechanisms returns all mechanisms.
func mechanisms() []mechanism {
	return []mechanism{plainText(), salted("SCRAM-SHA-256", scram.Sha256), salted(ScramSHA512, scram.Sha512), oauthBearer()}
}

func names() (names []string) {
	for _, m := range mechanisms() {
		names = append(names, m.name)
	}
	return names
}

// login reads the files in the options, and returns the login, or all problems of the options.
func (o SASL) login() (login, option.Problems) {
	var wrong option.Problems
	at := slices.IndexFunc(mechanisms(), func(m mechanism) bool { return m.name == o.Mechanism })
	if o.Mechanism != "" && at < 0 {
		want := english.WordSeries(names(), "or")
		for _, m := range mechanisms() {
			want = cmp.Or(m.instead[o.Mechanism], want)
		}
		wrong.Add("mechanism", o.Mechanism, want)
		return login{}, wrong
	}
	for _, k := range saslKeys() {
		field := option.Field(reflect.ValueOf(o), k.Name)
		if k.Name == "mechanism" || k.Name == "password" || field.Len() == 0 { // the environment may have a password for other commands
			continue
		}
		var takers []string
		for _, m := range mechanisms() {
			if slices.Contains(m.keys, k.Name) {
				takers = append(takers, m.name)
			}
		}
		if !slices.Contains(takers, o.Mechanism) {
			wrong.Add(k.Name, option.Shown(field.Interface()),
				"security.sasl.mechanism to be "+english.WordSeries(takers, "or")+", or no value here")
		}
	}
	if o.Mechanism == "" {
		return login{}, wrong
	}
	opened := mechanisms()[at].open(o, wrong.Add)
	if len(wrong) > 0 {
		return login{}, wrong
	}
	return opened, nil
}

// user returns the name and password of a user, or calls wrong.
func (o SASL) user(wrong func(key string, value any, want string)) (name, password string) {
	if o.Username == "" {
		wrong("username", "not set", "the name of a user")
	}
	password = o.Password.reveal()
	switch {
	case o.PasswordFile == "" && password == "":
		wrong("password_file", "not set", "a file with the password, or the password in the environment")
	case o.PasswordFile != "" && password != "":
		wrong("password_file", o.PasswordFile, "no value here, because the environment has the password")
	case o.PasswordFile != "":
		content, err := load(o.PasswordFile)
		password = firstLine(content)
		switch {
		case err != nil:
			wrong("password_file", o.PasswordFile, "a file that can be read: "+err.Error())
		case password == "":
			wrong("password_file", o.PasswordFile, "a file with the password in its first line")
		}
	}
	return o.Username, password
}

func firstLine(content []byte) string {
	line, _, _ := strings.Cut(string(content), "\n")
	return strings.TrimSuffix(line, "\r")
}

// load reads a file of at most 1 MiB, far more than a certificate or a password needs. Its errors omit the file name,
// which is the value of the setting.
func load(name string) ([]byte, error) {
	const maxBytes = 1 << 20
	content, err := func() ([]byte, error) {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return io.ReadAll(io.LimitReader(file, maxBytes+1))
	}()
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if err == nil && len(content) > maxBytes {
		err = errors.New("it is larger than 1 MiB")
	}
	return content, err
}

// pairs returns the names and values of a list of NAME=VALUE, or false if an entry has another form.
func pairs(list []string) (pairs [][2]string, ok bool) {
	for _, text := range list {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return nil, false
		}
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, true
}

// attempt adds the attempted operation to an error.
func attempt(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }

// Plain is the name of the mechanism.
const Plain = "PLAIN"

// plainText sends the user name and the password in plain text (RFC 4616).
func plainText() mechanism {
	return mechanism{name: Plain, keys: []string{"username", "password_file"},
		open: func(o SASL, wrong func(key string, value any, want string)) login {
			name, password := o.user(wrong)
			if strings.ContainsRune(name+password, 0) { // the separator
				wrong("username", name, "no zero byte in it or in the password")
			}
			return login{plainMechanism{name, NewSecret(password)}, "User:" + name}
		}}
}

// plainMechanism creates kafka-go's mechanism only at the login, because printing that mechanism reveals the password.
type plainMechanism struct {
	username string
	password Secret
}

func (p plainMechanism) Name() string { return Plain }

func (p plainMechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	return plain.Mechanism{Username: p.username, Password: p.password.reveal()}.Start(ctx)
}

// ScramSHA512 is the name of a mechanism.
const ScramSHA512 = "SCRAM-SHA-512"

// salted proves knowledge of the password without sending it (RFC 5802), by a hash.
func salted(name string, by func(func(context.Context) (scram.Auth, error)) franz.Mechanism) mechanism {
	return mechanism{name: name, keys: []string{"username", "password_file"},
		open: func(o SASL, wrong func(key string, value any, want string)) login {
			user, password := o.user(wrong)
			prepared, err := stringprep.SASLprep.Prepare(user)
			proof, prohibited := stringprep.SASLprep.Prepare(password)
			if err != nil || prohibited != nil { // the errors contain the password, so they are dropped
				wrong("username", user, "a user name and a password of characters that SCRAM allows (RFC 4013)")
			}
			secret := NewSecret(proof)
			m := by(func(context.Context) (scram.Auth, error) {
				return scram.Auth{User: prepared, Pass: secret.reveal()}, nil
			})
			return login{challenged{m}, "User:" + user}
		}}
}

// challenged is a mechanism of franz-go for kafka-go.
type challenged struct{ franz.Mechanism }

func (m challenged) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	session, first, err := m.Authenticate(ctx, "")
	return challengedState{session}, first, err
}

type challengedState struct{ franz.Session }

func (s challengedState) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	return s.Challenge(challenge)
}
