package gatehouse

import (
	"context"
	"math/rand/v2"
	"time"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

const (
	reopenMin = 50 * time.Millisecond
	reopenMax = time.Second
	// heartbeatEvery is the longest time between two messages of token-service.
	heartbeatEvery = 500 * time.Millisecond
	// silence is when the stream is opened anew.
	silence = 4 * heartbeatEvery
)

// watch keeps the revocations up to date until the context ends, resuming by sequence after each break.
func (v *Verifier) watch(ctx context.Context, onSilence func()) {
	pause := reopenMin
	for ctx.Err() == nil {
		hasHeard, err := v.follow(ctx, onSilence)
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
