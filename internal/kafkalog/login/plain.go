package login

import (
	"context"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
)

// Plain is the name of the mechanism.
const Plain = "PLAIN"

// plainText sends the user and the password as they are (RFC 4616).
func plainText() mechanism {
	return mechanism{name: Plain, keys: []string{"username", "password_file"},
		open: func(o Options, wrong func(key, value, want string)) Login {
			name, password := o.user(wrong)
			if strings.ContainsRune(name+password, 0) { // it separates them
				wrong("username", name, "no zero byte in it or in the password")
			}
			return Login{plainMechanism{name, NewSecret(password)}, "User:" + name}
		}}
}

// plainMechanism makes kafka-go's mechanism only at the login, because printing that one shows the password.
type plainMechanism struct {
	username string
	password Secret
}

func (p plainMechanism) Name() string { return Plain }

func (p plainMechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	return plain.Mechanism{Username: p.username, Password: p.password.reveal()}.Start(ctx)
}
