package gatehouse

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	return certify(t, template, authority{})
}

func certify(t *testing.T, template *x509.Certificate, issuer authority) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: "test"}
	template.NotBefore = time.Now().Add(-2 * time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	if issuer.key == nil {
		issuer = authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.certificate, &key.PublicKey, issuer.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key}
}

func leaf(t *testing.T, issuer authority, change func(*x509.Certificate), uris ...string) authority {
	template := &x509.Certificate{
		DNSNames:    []string{"localhost"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, text := range uris {
		uri, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, uri)
	}
	if change != nil {
		change(template)
	}
	return certify(t, template, issuer)
}

func writeFiles(t *testing.T, pair, ca authority) TLSFiles {
	t.Helper()
	directory := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(pair.key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return TLSFiles{
		CertFile: write("us.crt", "CERTIFICATE", pair.certificate.Raw),
		KeyFile:  write("us.key", "PRIVATE KEY", key),
		CAFile:   write("ca.crt", "CERTIFICATE", ca.certificate.Raw),
	}
}

// serveTLS runs a fake token-service with a certificate; the address is returned.
func serveTLS(t *testing.T, ca, pair authority, version uint16, fake *fakeTokenService) string {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(ca.certificate)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{pair.certificate.Raw}, PrivateKey: pair.key}},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		MaxVersion:   version,
	})))
	tokenv1.RegisterTokenServiceServer(server, fake)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func TestOnlyTokenServiceIsAsked(t *testing.T) {
	ours, foreign := newAuthority(t), newAuthority(t)
	const uri = tokenServiceURI
	for name, row := range map[string]struct {
		peer    authority
		version uint16
		problem string
	}{
		"token-service":           {leaf(t, ours, nil, uri), tls.VersionTLS13, ""},
		"another service":         {leaf(t, ours, nil, "spiffe://gatehouse/payments-service"), tls.VersionTLS13, "expected " + uri},
		"a longer name":           {leaf(t, ours, nil, uri+"-2"), tls.VersionTLS13, "expected " + uri},
		"two names":               {leaf(t, ours, nil, uri, "spiffe://gatehouse/gateway"), tls.VersionTLS13, "expected " + uri},
		"no name":                 {leaf(t, ours, nil), tls.VersionTLS13, "expected " + uri},
		"another authority":       {leaf(t, foreign, nil, uri), tls.VersionTLS13, "unknown authority"},
		"an expired certificate":  {leaf(t, ours, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }, uri), tls.VersionTLS13, "expired"},
		"a client's certificate":  {leaf(t, ours, func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }, uri), tls.VersionTLS13, "usage"},
		"an older version of TLS": {leaf(t, ours, nil, uri), tls.VersionTLS12, "protocol version"},
		"a leaf signed by a leaf": {leaf(t, leaf(t, ours, nil, uri), nil, uri), tls.VersionTLS13, "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeTokenService{resumed: make(chan uint64, 100)}
			fake.answer(active)
			us := leaf(t, ours, nil, "spiffe://gatehouse/payments-service")
			verifier, err := NewVerifier(Options{
				Address: serveTLS(t, ours, row.peer, row.version, fake), TLS: writeFiles(t, us, ours), Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer verifier.Close()
			_, err = verifier.Verify(context.Background(), goodToken)
			if row.problem == "" && err != nil {
				t.Fatal(err)
			}
			if row.problem != "" && (!errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), row.problem)) {
				t.Fatalf("got %v, want %q", err, row.problem)
			}
		})
	}
}

func TestTheLastGoodCertificateStaysWhileTheFilesDoNotMatch(t *testing.T) {
	ca := newAuthority(t)
	first, second := leaf(t, ca, nil), leaf(t, ca, nil)
	files := writeFiles(t, first, ca)
	material := &material{files: files}
	replaced := writeFiles(t, second, ca)
	steps := []struct {
		from, to string
		want     authority
	}{{"", "", first}, {replaced.CertFile, files.CertFile, first}, {replaced.KeyFile, files.KeyFile, second}}
	for _, step := range steps {
		if step.from != "" {
			if err := os.Rename(step.from, step.to); err != nil {
				t.Fatal(err)
			}
		}
		newest := material.newest()
		if string(newest.certificate.Certificate[0]) != string(step.want.certificate.Raw) {
			t.Fatalf("wrong certificate after %q was replaced", step.to)
		}
	}
}

func TestAProcessWithoutACertificateDoesNotStart(t *testing.T) {
	if _, err := NewVerifier(Options{Address: "localhost:1", TLS: TLSFiles{CertFile: "absent"}}); err == nil {
		t.Fatal("it did")
	}
}

func TestOptionsBelowZeroAreRefused(t *testing.T) {
	for _, options := range []Options{{MaxCachedTokens: -1}, {MaxRevocations: -1}, {CallTimeout: -time.Second}} {
		if _, err := NewVerifier(options); err == nil || !strings.Contains(err.Error(), "negative") {
			t.Errorf("%+v: %v", options, err)
		}
	}
}
