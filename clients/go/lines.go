package gatehouse

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// lines are the connections to token-service. gRPC itself finds a dead peer, such as a stopped machine, only by its keepalive.
type lines struct {
	mutex sync.Mutex
	open  map[*line]struct{}
}

type line struct {
	net.Conn
	lines   *lines
	heardAt atomic.Pointer[time.Time] // with a monotonic reading
}

func (l *lines) dial(ctx context.Context, address string) (net.Conn, error) {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	opened := &line{Conn: connection, lines: l}
	opened.heardAt.Store(new(time.Now()))
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.open[opened] = struct{}{}
	return opened, nil
}

// dropQuiet closes the connections from which nothing has come for so long: gRPC makes new ones. The others work, even if the
// stream of revocations is silent.
func (l *lines) dropQuiet(silence time.Duration) {
	l.mutex.Lock()
	var quiet []*line
	for each := range l.open {
		if time.Since(*each.heardAt.Load()) >= silence {
			quiet = append(quiet, each)
		}
	}
	l.mutex.Unlock()
	for _, each := range quiet {
		_ = each.Close()
	}
}

func (l *line) Read(into []byte) (int, error) {
	count, err := l.Conn.Read(into)
	if count > 0 {
		l.heardAt.Store(new(time.Now()))
	}
	return count, err
}

func (l *line) Close() error {
	l.lines.mutex.Lock()
	delete(l.lines.open, l)
	l.lines.mutex.Unlock()
	return l.Conn.Close()
}
