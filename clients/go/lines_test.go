package gatehouse

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

// A machine that stops answers nothing, and ends no connection: its kernel, or nobody, takes what comes.
type stoppable struct {
	mutex     sync.Mutex
	isStopped bool
}

func (s *stoppable) stop() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.isStopped = true
}

func (s *stoppable) hasStopped() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.isStopped
}

// relay passes the bytes of each connection on to the address, until the stoppable of that connection has stopped.
func relay(t *testing.T, address string) (string, <-chan *stoppable) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	accepted := make(chan *stoppable, 100)
	pass := func(from, to net.Conn, machine *stoppable) {
		buffer := make([]byte, 1<<16)
		for {
			count, err := from.Read(buffer)
			if machine.hasStopped() {
				_, _ = io.Copy(io.Discard, from)
				return
			}
			if count > 0 {
				_, _ = to.Write(buffer[:count])
			}
			if err != nil {
				_ = to.Close()
				return
			}
		}
	}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			machine := &stoppable{}
			go pass(near, far, machine)
			go pass(far, near, machine)
			accepted <- machine
		}
	}()
	return listener.Addr().String(), accepted
}

func TestTheConnectionToAMachineThatHasStoppedIsLeft(t *testing.T) {
	fake := &fakeTokenService{resumed: make(chan uint64, 100), send: make(chan *tokenv1.WatchRevocationsResponse)}
	fake.answer(active)
	go func() {
		for {
			select {
			case fake.send <- heartbeat(0):
				time.Sleep(10 * time.Millisecond)
			case <-t.Context().Done():
				return
			}
		}
	}()
	ca := newAuthority(t)
	address, accepted := relay(t, serveTLS(t, ca, leaf(t, ca, nil, tokenServiceURI), tls.VersionTLS13, fake))
	verifier, err := NewVerifier(Options{
		Address: address, TLS: writeFiles(t, leaf(t, ca, nil), ca), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer verifier.Close()
	eventually(t, func() bool { return verifier.Ready() == nil })
	<-fake.resumed
	(<-accepted).stop()
	eventually(t, verifier.isCutOff)
	// A stream by the same connection would not come through.
	eventually(t, func() bool { return len(fake.resumed) > 0 })
}

func TestAConnectionThatIsHeardStays(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	lines := &lines{open: map[*line]struct{}{}}
	dial := func() (near, far net.Conn) {
		near, err := lines.dial(t.Context(), listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far, err = listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return near, far
	}
	quiet, _ := dial()
	heard, far := dial()
	defer func() { _ = heard.Close() }()
	for each := range lines.open {
		each.heardAt.Store(new(time.Now().Add(-time.Hour)))
	}
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := heard.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	lines.dropQuiet(time.Minute)
	if _, err := quiet.Write([]byte("x")); err == nil {
		t.Error("a quiet connection is open")
	}
	if _, err := heard.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if len(lines.open) != 1 {
		t.Error(len(lines.open))
	}
}
