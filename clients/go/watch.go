package gatehouse

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

const (
	reopenMin = 50 * time.Millisecond
	reopenMax = time.Second
	// heartbeatEvery is the longest time between two messages of token-service.
	heartbeatEvery = 500 * time.Millisecond
	// silence is when the stream is opened anew.
	silence = 4 * heartbeatEvery
	// quiet: a connection to a machine that has stopped may have been heard for one heartbeat longer than the stream.
	quiet = silence - heartbeatEvery
)

// watch keeps the revocations up to date until the context ends, resuming by sequence after each break.
func (v *Verifier) watch(ctx context.Context, onSilence func()) {
	pause, brokenBy := reopenMin, codes.OK
	for ctx.Err() == nil {
		hasHeard, err := v.follow(ctx, onSilence)
		if ctx.Err() != nil {
			return
		}
		if hasHeard {
			pause, brokenBy = reopenMin, codes.OK
		}
		// As a warning only what is new: it goes on once a second at most.
		level := slog.LevelWarn
		if status.Code(err) == brokenBy {
			level = slog.LevelDebug
		}
		brokenBy = status.Code(err)
		v.logger.Log(ctx, level, "the revocation stream broke", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))):
		}
		pause = min(pause*2, reopenMax)
	}
}

// follow reads one stream until it ends or falls silent.
func (v *Verifier) follow(ctx context.Context, onSilence func()) (hasHeard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(silence, func() {
		onSilence()
		cancel()
	})
	defer watchdog.Stop()

	sequence, tip := v.revoked.begin()
	request := &tokenv1.WatchRevocationsRequest{AfterSequence: sequence, Tip: tip}
	openedAt := v.now()
	stream, err := v.client.WatchRevocations(ctx, request)
	if err != nil {
		return false, err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return hasHeard, err
		}
		watchdog.Reset(silence)
		v.messageAt.Store(new(v.now()))
		if err := v.revoked.apply(message, openedAt, v.now()); err != nil {
			return hasHeard, err
		}
		if !v.revoked.knowsAllKinds() {
			v.distrusted.Do(func() {
				v.logger.Error("token-service revokes something that this version does not know: update it")
			})
		}
		hasHeard = true
	}
}
