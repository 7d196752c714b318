package gatehouse

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// tokenServiceURI is the one URI SAN in token-service's certificate, whatever host name leads to it.
const tokenServiceURI = "spiffe://gatehouse/token-service"

// TLSFiles are the PEM files of this process. They are read again at each connection, so a renewed certificate is
// used without a restart (token-service ends connections after ten minutes).
type TLSFiles struct {
	CertFile string
	KeyFile  string
	CAFile   string // the private CA, which signs the certificates of both ends
}

// VerifyToken may be repeated once, only on UNAVAILABLE, 100 at once (as many as may be under way at a replica that is killed) and
// then within 10 % of the calls (gRFC A6).
const serviceConfig = `{
  "loadBalancingConfig": [{ "round_robin": {} }],
  "retryThrottling": { "maxTokens": 200, "tokenRatio": 0.1 },
  "methodConfig": [{
    "name": [{ "service": "gatehouse.token.v1.TokenService", "method": "VerifyToken" }],
    "retryPolicy": {
      "maxAttempts": 2, "initialBackoff": "0.02s", "maxBackoff": "0.1s", "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }]
}`

func connect(address string, files TLSFiles, lines *lines) (*grpc.ClientConn, error) {
	config, err := tlsConfig(files)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("dns:///"+address,
		grpc.WithContextDialer(lines.dial),
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDisableServiceConfig(), // none from DNS
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		// Shorter times are not possible. Before it, the silence of the stream makes lines.dropQuiet find a dead peer.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		// The default goes up to two minutes, which would outlast an outage by as much.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
	)
}

// tlsConfig is mutual TLS 1.3 with token-service. The peer must present a chain to the private CA and the URI SAN of
// token-service. crypto/tls can check host names only, so its own check is replaced by one that does all of that.
func tlsConfig(files TLSFiles) (*tls.Config, error) {
	material := &material{files: files}
	if _, err := material.read(); err != nil {
		return nil, err // a process must not start without its identity
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			newest := material.newest()
			return &newest.certificate, nil
		},
		InsecureSkipVerify: true, // VerifyConnection does it, also for a resumed session
		VerifyConnection: func(state tls.ConnectionState) error {
			return verifyPeer(state.PeerCertificates, material.newest().authorities, tokenServiceURI)
		},
	}, nil
}

// verifyPeer checks the whole chain, the purpose and the name (SPIFFE X.509-SVID §5.2: exactly one URI).
func verifyPeer(chain []*x509.Certificate, authorities *x509.CertPool, uri string) error {
	if len(chain) == 0 {
		return errors.New("the peer has no certificate")
	}
	leaf, intermediates := chain[0], x509.NewCertPool()
	for _, certificate := range chain[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots:         authorities,
		Intermediates: intermediates,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != uri {
		return fmt.Errorf("expected %s, the peer is %v", uri, leaf.URIs)
	}
	return nil
}

// material is what the files held when they were last good.
type material struct {
	files TLSFiles
	mutex sync.Mutex
	last  contents
}

type contents struct {
	certificate tls.Certificate
	authorities *x509.CertPool
}

func (m *material) read() (contents, error) {
	// Also makes sure that the two belong together: a pair caught half-replaced is not used.
	certificate, err := tls.LoadX509KeyPair(m.files.CertFile, m.files.KeyFile)
	if err != nil {
		return contents{}, err
	}
	pem, err := os.ReadFile(m.files.CAFile)
	if err != nil {
		return contents{}, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return contents{}, fmt.Errorf("%s holds no certificate", m.files.CAFile)
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.last = contents{certificate, authorities}
	return m.last, nil
}

// newest is what the files hold now, or held when they were last good.
func (m *material) newest() contents {
	if read, err := m.read(); err == nil {
		return read
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.last
}
