package secure

import (
	"context"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
)

// Plain is the name of the mechanism.
const Plain = "PLAIN"

// plainText sends the user name and the password in plain text (RFC 4616).
func plainText() mechanism {
	return mechanism{name: Plain, keys: []string{"username", "password_file"},
		open: func(o SASL, wrong func(key, value, want string)) login {
			name, password := o.user(wrong)
			if strings.ContainsRune(name+password, 0) { // the separator
				wrong("username", name, "no zero byte in it or in the password")
			}
			return login{plainMechanism{name, NewSecret(password)}, "User:" + name}
		}}
}

// plainMechanism creates kafka-go's mechanism only at the login, because printing that one reveals the password.
type plainMechanism struct {
	username string
	password Secret
}

func (p plainMechanism) Name() string { return Plain }

func (p plainMechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	return plain.Mechanism{Username: p.username, Password: p.password.reveal()}.Start(ctx)
}
