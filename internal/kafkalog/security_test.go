package kafkalog

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// authority is a CA of a test's own; the files of what it issues are in dir.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.certificate, a.key = a.issue(t, "ca", true)
	return a
}

// issue writes name.pem and name.key.
func (a *authority) issue(t *testing.T, name string, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name}, IsCA: isCA, BasicConstraintsValid: true,
	}
	parent, signer := template, key
	if a.certificate != nil {
		parent, signer = a.certificate, a.key
	}
	der := must(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer))(t)
	private := must(x509.MarshalPKCS8PrivateKey(key))(t)
	noError(t, os.WriteFile(a.file(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	noError(t, os.WriteFile(a.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return must(x509.ParseCertificate(der))(t), key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// broker is TLS as a broker has it that wants certificates of this authority.
func (a *authority) broker(t *testing.T, clients tls.ClientAuthType) *tls.Config {
	t.Helper()
	a.issue(t, "broker", false)
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{
		Certificates: []tls.Certificate{must(tls.LoadX509KeyPair(a.file("broker.pem"), a.file("broker.key")))(t)},
		ClientAuth:   clients, ClientCAs: pool,
	}
}

// trusting is TLS as a client has it that trusts this authority.
func (a *authority) trusting() TLS { return TLS{Enabled: true, CA: a.file("ca.pem")} }

const password = `hunter2 "correct', horse`

func as(mechanism, user, password string) SASL {
	return SASL{Mechanism: mechanism, Username: user, Password: NewSecret(password)}
}

// access is the error of a log that brokers do not let in.
func access(t *testing.T, brokers []string, s Security) *AccessError {
	t.Helper()
	start := time.Now()
	l, err := Open(testContext(t), Options{Brokers: brokers, Security: s})
	if err == nil {
		noError(t, l.Close())
		t.Fatal("the brokers let us in")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v to find out", took)
	}
	if strings.Contains(err.Error(), password) {
		t.Errorf("the password is in %q", err)
	}
	denied, ok := errors.AsType[*AccessError](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	return denied
}

func openSecured(t *testing.T, brokers []string, s Security) *Log {
	t.Helper()
	l, err := Open(testContext(t), Options{Brokers: brokers, Security: s})
	noError(t, err)
	t.Cleanup(func() { noError(t, l.Close()) })
	return l
}

func TestMechanisms(t *testing.T) {
	for _, mechanism := range []string{mechanismPlain, mechanismScram256, mechanismScram512} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t)
			_, brokers := startCluster(t, kfake.NumBrokers(1), kfake.TLS(ca.broker(t, tls.NoClientCert)),
				kfake.EnableSASL(), kfake.Superuser(mechanism, "alice", password))
			l := openSecured(t, brokers, Security{ca.trusting(), as(mechanism, "alice", password)})
			ctx := testContext(t)
			noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
			must(l.Append(ctx, "t", 0, numberedUpTo(3, 10)...))(t)
			if got, err := read(t, l, "t", 0, 3); err != io.EOF || !slices.Equal(texts(got), numbers(0, 3)) {
				t.Errorf("%v, %v", texts(got), err)
			}
			conn := must(l.dialer().DialContext(ctx, "tcp", brokers[0]))(t)
			defer conn.Close()
			if found, err := conn.ReadPartitions("t"); len(found) != 1 || err != nil {
				t.Errorf("by the dialer: %v, %v", found, err)
			}

			for _, wrong := range []SASL{as(mechanism, "alice", "guess"), as(mechanism, "bob", password)} {
				denied := access(t, brokers, Security{ca.trusting(), wrong})
				if !strings.HasPrefix(denied.Check, "security.sasl") || !strings.Contains(denied.Check, "User:"+wrong.Username+" by mechanism "+mechanism) {
					t.Error(denied)
				}
			}
		})
	}
}

// strict is a listener that closes connections on requests of over 100 MB, as Kafka does (socket.request.max.bytes): a TLS
// handshake looks like one. kfake would wait for the rest.
func strict(network, address string) (net.Listener, error) {
	listener, err := net.Listen(network, address)
	return strictListener{listener}, err
}

type strictListener struct{ net.Listener }

func (l strictListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &strictConn{Conn: conn}, nil
}

type strictConn struct {
	net.Conn
	begun bool
}

func (c *strictConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.begun && n > 0 {
		if c.begun = true; b[0] >= 0x06 { // the first of four bytes of a size in bytes
			return 0, io.EOF
		}
	}
	return n, err
}

func TestTrust(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	ca.issue(t, "client", false)
	other.issue(t, "client", false)
	_, open := startCluster(t, kfake.NumBrokers(1), kfake.ListenFn(strict))
	_, named := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.TLS(ca.broker(t, tls.NoClientCert)))
	_, secured := startCluster(t, kfake.NumBrokers(1), kfake.TLS(ca.broker(t, tls.NoClientCert)))
	_, mutual := startCluster(t, kfake.NumBrokers(1), kfake.TLS(ca.broker(t, tls.RequireAndVerifyClientCert)))
	with := func(t TLS, change func(*TLS)) TLS { change(&t); return t }
	for name, c := range map[string]struct {
		brokers []string
		tls     TLS
		check   string // of the AccessError; "": it is let in
	}{
		"the CA of the broker":      {secured, ca.trusting(), ""},
		"the name of the broker":    {secured, with(ca.trusting(), func(t *TLS) { t.ServerName = "broker" }), ""},
		"another name":              {secured, with(ca.trusting(), func(t *TLS) { t.ServerName = "example.org" }), "security.tls.server_name"},
		"another CA":                {secured, other.trusting(), "security.tls.ca"},
		"the CAs of the system":     {secured, TLS{Enabled: true}, "security.tls.ca"},
		"plain text to a TLS port":  {secured, TLS{}, "security.tls.enabled: " + secured[0] + " speaks TLS"},
		"TLS to a plain text port":  {open, ca.trusting(), "security.tls.enabled: " + open[0] + " speaks no TLS"},
		"no certificate of ours":    {mutual, ca.trusting(), "security.tls.certificate"},
		"plain text to a mutual":    {mutual, TLS{}, "security.tls.enabled: " + mutual[0] + " speaks TLS"},
		"nobody":                    {named, ca.trusting(), "security.sasl: " + named[0]},
		"a certificate of another":  {mutual, with(ca.trusting(), func(t *TLS) { t.Certificate, t.Key = other.file("client.pem"), other.file("client.key") }), "security.tls.certificate"},
		"a certificate of the same": {mutual, with(ca.trusting(), func(t *TLS) { t.Certificate, t.Key = ca.file("client.pem"), ca.file("client.key") }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.check == "" {
				openSecured(t, c.brokers, Security{TLS: c.tls})
			} else if denied := access(t, c.brokers, Security{TLS: c.tls}); !strings.HasPrefix(denied.Check, c.check) {
				t.Errorf("%v; expected %q", denied, c.check)
			}
		})
	}
}

// A password that is refused while a log is open ends what waits for it. A broker that only closes the connection is
// stopping, and is waited for.
func TestPasswordChanges(t *testing.T) {
	cluster, brokers := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(mechanismPlain, "alice", password))
	l := openSecured(t, brokers, Security{SASL: as(mechanismPlain, "alice", password)})
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	l.transport.CloseIdleConnections()
	cuts := 3
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cuts--
		return nil, errors.New("cut"), cuts >= 0
	})
	must(l.Append(ctx, "t", 0, numbered(0, 10)))(t)

	l.transport.CloseIdleConnections()
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		response.ErrorCode, response.ErrorMessage = kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr("Authentication failed: Invalid username or password")
		return response, nil, true
	})
	_, err := l.Append(ctx, "t", 0, numbered(1, 10))
	if denied, ok := errors.AsType[*AccessError](err); !ok || !errors.Is(err, kafka.SASLAuthenticationFailed) || !strings.Contains(denied.Check, "User:alice by mechanism PLAIN") {
		t.Errorf("error %v", err)
	}
}

// What a user may not do ends at once, and says whose ACLs to look at. A topic that is there needs nobody's permission to be
// created.
func TestPermissions(t *testing.T) {
	may := func(operation kmsg.ACLOperation, topic string) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: topic, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: operation, Allow: true}
	}
	_, brokers := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser(mechanismPlain, "admin", password),
		kfake.User(mechanismPlain, "reader", password, may(kmsg.ACLOperationRead, "t"), may(kmsg.ACLOperationDescribe, "absent")))
	admin := openSecured(t, brokers, Security{SASL: as(mechanismPlain, "admin", password)})
	ctx := testContext(t)
	noError(t, admin.Create(ctx, Topic{Name: "t", Partitions: 1}, Topic{Name: "hidden", Partitions: 1}))
	must(admin.Append(ctx, "t", 0, numbered(0, 10)))(t)

	l := openSecured(t, brokers, Security{SASL: as(mechanismPlain, "reader", password)})
	l.settle = 0
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	if got, err := read(t, l, "t", 0, 1); err != io.EOF || len(got) != 1 {
		t.Errorf("%v, %v", texts(got), err)
	}
	for what, call := range map[string]func() error{
		"append": func() error { _, err := l.Append(ctx, "t", 0, numbered(1, 10)); return err },
		"create": func() error { return l.Create(ctx, Topic{Name: "absent", Partitions: 1}) },
		"config": func() error { _, err := l.Config(ctx, "t"); return err },
		"delete": func() error { return l.Delete(ctx, "t") },
	} {
		err := call()
		denied, ok := errors.AsType[*AccessError](err)
		if !ok || !errors.Is(err, kafka.TopicAuthorizationFailed) || !strings.HasPrefix(denied.Check, "the ACLs of User:reader") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := l.Append(ctx, "hidden", 0, numbered(1, 10)); !errors.Is(err, ErrUnknownTopic) || !strings.Contains(err.Error(), "or User:reader may not describe it") {
		t.Errorf("a topic that it may not describe: %v", err)
	}
}

func TestSecurityThatCantBe(t *testing.T) {
	ca := newAuthority(t)
	ca.issue(t, "client", false)
	ca.issue(t, "other", false)
	write := func(name, content string) string {
		noError(t, os.WriteFile(ca.file(name), []byte(content), 0o600))
		return ca.file(name)
	}
	empty, words, none := write("empty", "\nsecond line\n"), write("words", "certificate"), ca.file("none")
	huge := write("huge", strings.Repeat("x", 2<<20))
	client, key := ca.file("client.pem"), ca.file("client.key")
	from := func(file string) SASL {
		return SASL{Mechanism: mechanismPlain, Username: "alice", PasswordFile: file}
	}
	for name, c := range map[string]struct {
		security Security
		want     []string // how each error begins
	}{
		"nothing":                      {Security{}, nil},
		"TLS":                          {Security{TLS: ca.trusting()}, nil},
		"a certificate":                {Security{TLS: TLS{Enabled: true, Certificate: client, Key: key}}, nil},
		"a stray password":             {Security{SASL: SASL{Password: NewSecret(password)}}, nil},
		"a password file":              {Security{SASL: from(write("password", "x\r\n"))}, nil},
		"TLS that is off":              {Security{TLS: TLS{CA: client, ServerName: "a"}}, []string{"tls.ca: " + client + ": expected security.tls.enabled", "tls.server_name: a: expected security.tls.enabled"}},
		"no such CA":                   {Security{TLS: TLS{Enabled: true, CA: none}}, []string{"tls.ca: " + none + ": expected a PEM file that can be read: no such file"}},
		"a CA that is a folder":        {Security{TLS: TLS{Enabled: true, CA: ca.dir}}, []string{"tls.ca: " + ca.dir + ": expected a PEM file that can be read: is a directory"}},
		"a CA that is none":            {Security{TLS: TLS{Enabled: true, CA: words}}, []string{"tls.ca: " + words + ": expected a PEM file with a certificate"}},
		"a huge CA":                    {Security{TLS: TLS{Enabled: true, CA: huge}}, []string{"tls.ca: " + huge + ": expected a PEM file that can be read: it is over 1 MiB"}},
		"no key":                       {Security{TLS: TLS{Enabled: true, Certificate: client}}, []string{"tls.certificate: " + client + ": expected its private key in security.tls.key"}},
		"no certificate":               {Security{TLS: TLS{Enabled: true, Key: key}}, []string{"tls.key: " + key + ": expected its certificate"}},
		"no such certificate":          {Security{TLS: TLS{Enabled: true, Certificate: none, Key: key}}, []string{"tls.certificate: " + none + ": expected a PEM file that can be read"}},
		"a certificate that is none":   {Security{TLS: TLS{Enabled: true, Certificate: words, Key: key}}, []string{"tls.certificate: " + words + ": expected a PEM file with a certificate"}},
		"no such key":                  {Security{TLS: TLS{Enabled: true, Certificate: client, Key: none}}, []string{"tls.key: " + none + ": expected a PEM file that can be read"}},
		"a key that is none":           {Security{TLS: TLS{Enabled: true, Certificate: client, Key: words}}, []string{"tls.key: " + words + ": expected the private key"}},
		"the key of another":           {Security{TLS: TLS{Enabled: true, Certificate: client, Key: ca.file("other.key")}}, []string{"tls.key: " + ca.file("other.key") + ": expected the private key, PEM and not encrypted, of " + client}},
		"an unknown mechanism":         {Security{SASL: as("GSSAPI", "alice", password)}, []string{"sasl.mechanism: GSSAPI: expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"}},
		"a user and no mechanism":      {Security{SASL: SASL{Username: "alice", PasswordFile: none}}, []string{"sasl.username: alice: expected security.sasl.mechanism", "sasl.password_file: " + none + ": expected security.sasl.mechanism"}},
		"a mechanism alone":            {Security{SASL: SASL{Mechanism: mechanismPlain}}, []string{"sasl.username: not set", "sasl.password_file: not set"}},
		"two passwords":                {Security{SASL: SASL{Mechanism: mechanismPlain, Username: "alice", Password: NewSecret(password), PasswordFile: none}}, []string{"sasl.password_file: " + none + ": expected nothing"}},
		"no such password file":        {Security{SASL: from(none)}, []string{"sasl.password_file: " + none + ": expected a file that can be read: no such file"}},
		"an empty password file":       {Security{SASL: from(empty)}, []string{"sasl.password_file: " + empty + ": expected a file with the password in its first line"}},
		"a password that PLAIN can't":  {Security{SASL: as(mechanismPlain, "alice", password+"\x00")}, []string{"sasl.username: alice: expected no zero byte"}},
		"a password that SCRAM can't":  {Security{SASL: as(mechanismScram512, "alice", password+"\u0007")}, []string{"sasl.username: alice: expected letters"}},
		"a CA and a mechanism at once": {Security{TLS{Enabled: true, CA: none}, SASL{Mechanism: "x", Username: "a", Password: NewSecret(password)}}, []string{"tls.ca", "sasl.mechanism"}},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := c.security.Check()
			if len(wrong) != len(c.want) {
				t.Fatalf("%v, expected %v", wrong, c.want)
			}
			for i, want := range c.want {
				if got := wrong[i].Error(); !strings.HasPrefix(got, "security."+want) || strings.Contains(got, password) {
					t.Errorf("%q, expected %q", got, want)
				}
			}
			if len(wrong) == 0 {
				return
			}
			if _, err := Open(testContext(t), Options{Brokers: []string{"127.0.0.1:1"}, Security: c.security}); !errors.As(err, new(*SecurityError)) {
				t.Errorf("opened: %v", err)
			}
		})
	}
}

// Nothing that prints comes to the password: not what was asked for, not what was made of it, and not where fmt does not ask
// methods, as with fields that are not exported.
func TestSecretIsNeverShown(t *testing.T) {
	_, brokers := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(),
		kfake.Superuser(mechanismPlain, "alice", password), kfake.Superuser(mechanismScram256, "alice", password))
	for _, mechanism := range []string{mechanismPlain, mechanismScram256} {
		options := Options{Brokers: brokers, Security: Security{SASL: as(mechanism, "alice", password)}}
		secret := options.Security.SASL.Password
		l, err := Open(testContext(t), options)
		noError(t, err)
		defer l.Close()
		type unexported struct {
			secret  Secret
			options *Options
			list    []Security
		}
		things := []any{
			secret, &secret, options, &options, options.Security, options.Security.SASL, []Secret{secret}, map[Secret]Secret{secret: secret},
			unexported{secret, &options, []Security{options.Security}}, &unexported{secret, &options, []Security{options.Security}},
			fmt.Errorf("open %v", options), *l.dialer(), l.identity,
		}
		var shown bytes.Buffer
		text, machine := slog.New(slog.NewTextHandler(&shown, nil)), slog.New(slog.NewJSONHandler(&shown, nil))
		for _, thing := range things {
			for verb := 'A'; verb <= 'z'; verb++ {
				for _, flags := range []string{"", "+", "#", " ", "-30", "#+"} {
					if verb <= 'Z' || verb >= 'a' {
						fmt.Fprintf(&shown, "%"+flags+string(verb)+"\n", thing)
					}
				}
			}
			fmt.Fprintln(&shown, thing)
			text.Info("thing", "thing", thing)
			machine.Info("thing", "thing", thing)
			encoded, _ := json.Marshal(thing) // some can't be
			shown.Write(encoded)
		}
		for _, form := range []string{password, "hunter2", "horse", hex.EncodeToString([]byte("hunter2")), strings.ToUpper(hex.EncodeToString([]byte("hunter2"))), "104 117 110"} {
			if at := strings.Index(shown.String(), form); at >= 0 {
				t.Errorf("%s: %q is in …%s", mechanism, form, shown.String()[max(0, at-200):at+len(form)])
			}
		}
		if !strings.Contains(shown.String(), hidden) {
			t.Error("nothing was shown at all")
		}
	}
	if !(Secret{}).IsZero() || NewSecret("").reveal() != "" || NewSecret(password).IsZero() || NewSecret(password).reveal() != password {
		t.Error("a secret is not what it was made of")
	}
}
