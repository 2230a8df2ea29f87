package secure

import "github.com/segmentio/kafka-go/sasl/scram"

// The names of the mechanisms.
const (
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// scramSHA256 proves knowledge of the password without sending it (RFC 5802).
func scramSHA256() mechanism { return salted(ScramSHA256, scram.SHA256) }

// scramSHA512 is scramSHA256 with a longer hash.
func scramSHA512() mechanism { return salted(ScramSHA512, scram.SHA512) }

func salted(name string, algorithm scram.Algorithm) mechanism {
	return mechanism{name: name, keys: []string{"username", "password_file"},
		open: func(o SASL, wrong func(key, value, want string)) login {
			user, password := o.user(wrong)
			m, err := scram.Mechanism(algorithm, user, password)
			if err != nil { // the error contains the password, so it is dropped
				wrong("username", user, "a user name and a password of characters that SCRAM allows (RFC 4013)")
			}
			return login{m, "User:" + user}
		}}
}
