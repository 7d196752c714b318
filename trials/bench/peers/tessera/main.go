// Adds entries to a log of tessera in a new folder, and prints as JSON how many a second became durable and what CPU each
// took: tessera FOLDER ENTRIES
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

const (
	entryBytes = 650
	batchSize  = 256
	maxWaiting = 2_000
	warmUp     = 2_000
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: tessera FOLDER ENTRIES")
	}
	entries, err := strconv.Atoi(os.Args[2])
	if err != nil || entries < 1 {
		log.Fatalf("not a number of entries: %q", os.Args[2])
	}
	ctx := context.Background()
	appender, shutdown, err := open(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := add(ctx, appender, warmUp, 0); err != nil {
		log.Fatal(err)
	}
	cpuBefore, started := cpu(), time.Now()
	if err := add(ctx, appender, entries, warmUp); err != nil {
		log.Fatal(err)
	}
	took, used := time.Since(started), cpu()-cpuBefore
	if err := shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	result := map[string]float64{
		"perSecond": float64(entries) / took.Seconds(),
		"cpuUs":     float64(used.Microseconds()) / float64(entries),
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		log.Fatal(err)
	}
}

func open(ctx context.Context, folder string) (*tessera.Appender, func(context.Context) error, error) {
	secret, _, err := note.GenerateKey(rand.Reader, "bench.example/log")
	if err != nil {
		return nil, nil, err
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		return nil, nil, err
	}
	driver, err := posix.New(ctx, posix.Config{Path: folder})
	if err != nil {
		return nil, nil, err
	}
	options := tessera.NewAppendOptions().
		WithCheckpointSigner(signer).
		WithBatching(batchSize, 50*time.Millisecond)
	appender, shutdown, _, err := tessera.NewAppender(ctx, driver, options)
	return appender, shutdown, err
}

// Adds this many entries, each different, and waits until all have a place in the log.
func add(ctx context.Context, appender *tessera.Appender, entries, firstIndex int) error {
	var running sync.WaitGroup
	failures := make(chan error, entries)
	slots := make(chan struct{}, maxWaiting)
	for i := range entries {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			data := make([]byte, entryBytes)
			copy(data, fmt.Sprintf("%020d", firstIndex+i))
			index, err := appender.Add(ctx, tessera.NewEntry(data))()
			if err == nil && index.Index >= uint64(firstIndex+entries) {
				err = fmt.Errorf("entry %d has the place %d", firstIndex+i, index.Index)
			}
			if err != nil {
				failures <- err
			}
		})
	}
	running.Wait()
	close(failures)
	return <-failures
}

// User and system time of all threads until now.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
