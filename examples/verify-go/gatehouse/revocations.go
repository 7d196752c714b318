package gatehouse

import (
	"sync"
	"time"

	tokenv1 "gatehouse.example/verify-go/gen/gatehouse/token/v1"
)

// staleAfter is how long token-service may be silent before memory is not trusted: revocations may exist by
// then that this process has not heard of.
const staleAfter = 3 * time.Second

const (
	maxRevocations = 1_000_000
	forgetInterval = time.Second
)

// revocations is what is revoked, as far as this process knows, and how far that is.
type revocations struct {
	maxEntries int

	mutex        sync.RWMutex
	sessions     map[string]time.Time // until when, by the wall clock
	keys         map[string]time.Time
	sequence     uint64
	heardAt      time.Time // has a monotonic reading, which time.Sub uses
	hasKnownAll  bool
	isIncomplete bool
	forgotAt     time.Time
}

func newRevocations(maxEntries int) *revocations {
	return &revocations{maxEntries: maxEntries, sessions: map[string]time.Time{}, keys: map[string]time.Time{}}
}

// apply takes in a message that was received at now. It returns false if the message revokes something that cannot
// be kept or is not understood: memory is not trusted from then on.
func (r *revocations) apply(message *tokenv1.WatchRevocationsResponse, now time.Time) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, revocation := range message.GetRevocations() {
		until := now.AddDate(100, 0, 0)
		if revocation.GetExpiresAt().IsValid() {
			until = revocation.GetExpiresAt().AsTime()
		}
		switch target := revocation.GetTarget().(type) {
		case *tokenv1.Revocation_SessionId:
			r.add(r.sessions, target.SessionId, until)
		case *tokenv1.Revocation_KeyId:
			r.add(r.keys, target.KeyId, until)
		default:
			r.isIncomplete = true
		}
	}
	r.forgetEnded(now)
	r.sequence = message.GetSequence()
	if message.GetCaughtUp() {
		r.hasKnownAll = true
		r.heardAt = now
	}
	return !r.isIncomplete
}

func (r *revocations) add(entries map[string]time.Time, id string, until time.Time) {
	known, isKnown := entries[id]
	switch {
	case isKnown && known.After(until):
	case isKnown || len(r.sessions)+len(r.keys) < r.maxEntries:
		entries[id] = until
	default:
		r.isIncomplete = true
	}
}

func (r *revocations) forgetEnded(now time.Time) {
	if now.Sub(r.forgotAt) < forgetInterval {
		return
	}
	r.forgotAt = now
	for _, entries := range []map[string]time.Time{r.sessions, r.keys} {
		for id, until := range entries {
			if until.Before(now) {
				delete(entries, id)
			}
		}
	}
}

func (r *revocations) has(sessionID, keyID string) bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	_, isSessionRevoked := r.sessions[sessionID]
	_, isKeyRevoked := r.keys[keyID]
	return isSessionRevoked || isKeyRevoked
}

// isFresh says whether everything revoked more than staleAfter ago is known here.
func (r *revocations) isFresh(now time.Time) bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return r.hasKnownAll && !r.isIncomplete && now.Sub(r.heardAt) <= staleAfter
}

func (r *revocations) lastSequence() uint64 {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return r.sequence
}
