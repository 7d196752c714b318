package gatehouse

import (
	"errors"
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
	// maxKeep is longer than any access token lives and any clock differs.
	maxKeep = 3610 * time.Second
	// maxMessageAge: beyond it the stream is opened anew; its connection may have been slow to open.
	maxMessageAge = 2 * time.Second
	// maxMessageAhead: a message that tells of a read so far ahead proves nothing; this machine was suspended.
	maxMessageAhead = time.Second
)

var (
	errStale      = errors.New("the stream tells nothing of the present")
	errDistrusted = errors.New("a revocation could not be kept or understood")
)

// revocations is what is revoked, as far as this process knows, and how far that is.
type revocations struct {
	maxEntries int

	mutex        sync.RWMutex
	sessions     map[string]time.Time // until when; has a monotonic reading, which comparisons use
	keys         map[string]time.Time
	sequence     uint64
	tip          string
	heardAt      time.Time // has a monotonic reading, which time.Sub uses
	hasKnownAll  bool
	isIncomplete bool
	forgotAt     time.Time
}

func newRevocations(maxEntries int) *revocations {
	return &revocations{maxEntries: maxEntries, sessions: map[string]time.Time{}, keys: map[string]time.Time{}}
}

// apply takes in a message that was received at now on a stream that was opened at openedAt. It returns errStale if the
// stream is to be opened anew, and errDistrusted if it revokes something that cannot be kept or is not
// understood: memory is not trusted from then on.
func (r *revocations) apply(message *tokenv1.WatchRevocationsResponse, openedAt, now time.Time) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	least := maxKeep
	if message.GetKeepS() > 0 {
		least = time.Duration(message.GetKeepS()) * time.Second
	}
	for _, revocation := range message.GetRevocations() {
		keep := least
		if revocation.GetExpiresAt().IsValid() {
			// A wall clock may only make this longer, and not beyond any token's life.
			keep = max(least, min(revocation.GetExpiresAt().AsTime().Sub(now), maxKeep))
		}
		until := now.Add(keep)
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
	r.sequence, r.tip = message.GetSequence(), message.GetTip()
	if r.isIncomplete {
		return errDistrusted
	}
	if !message.GetCaughtUp() {
		return nil
	}
	readAt := now
	if message.ElapsedMs != nil {
		// The server began the stream after it was opened here, so it read the log at this moment or later.
		readAt = openedAt.Add(time.Duration(message.GetElapsedMs()) * time.Millisecond)
	}
	if readAt.Sub(now) > maxMessageAhead {
		return errStale
	}
	r.hasKnownAll = true
	if readAt.After(r.heardAt) {
		r.heardAt = readAt
	}
	if now.Sub(readAt) > maxMessageAge {
		return errStale
	}
	return nil
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

// hasAny says whether the principal's session, credential or key is revoked, or this one token of a client (RFC 7009).
func (r *revocations) hasAny(principal Principal) bool {
	return r.has(principal.SessionID, principal.KeyID) ||
		principal.Kind == KindClient && (r.has(principal.TokenID, "") || r.has(principal.OriginID, ""))
}

// isFresh says whether everything revoked more than staleAfter ago is known here.
func (r *revocations) isFresh(now time.Time) bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return r.hasKnownAll && !r.isIncomplete && now.Sub(r.heardAt) <= staleAfter
}

// position is where the next stream resumes.
func (r *revocations) position() (sequence uint64, tip string) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return r.sequence, r.tip
}
