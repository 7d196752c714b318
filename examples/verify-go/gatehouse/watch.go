package gatehouse

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	tokenv1 "gatehouse.example/verify-go/gen/gatehouse/token/v1"
)

const (
	reopenMin = 50 * time.Millisecond
	reopenMax = time.Second
	// silence is four of the server's heartbeats: then the stream is opened anew.
	silence = 2 * time.Second
)

// watch keeps the revocations up to date until the context ends, resuming by sequence after each break.
func (v *Verifier) watch(ctx context.Context) {
	pause := reopenMin
	for ctx.Err() == nil {
		hasHeard, err := v.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		v.logger.Warn("the revocation stream broke", "error", err)
		if hasHeard {
			pause = reopenMin
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))):
		}
		pause = min(pause*2, reopenMax)
	}
}

// follow reads one stream until it ends or falls silent.
func (v *Verifier) follow(ctx context.Context) (hasHeard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()

	sequence, tip := v.revoked.position()
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
		switch err := v.revoked.apply(message, openedAt, v.now()); {
		case errors.Is(err, errStale):
			return hasHeard, err
		case err != nil:
			v.distrusted.Do(func() {
				v.logger.Error("every token is asked for from now on", "error", err)
			})
		}
		hasHeard = true
	}
}
