package gatehouse

import (
	"context"
	"errors"
	"sync"
	"time"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

// staleAfter is how long token-service may be silent before memory is not trusted: revocations may exist by
// then that this process has not heard of.
const staleAfter = 3 * time.Second

const (
	maxRevocations = 1_000_000
	forgetInterval = time.Second
	// maxKeep is longer than any access token lives and any clock differs.
	maxKeep       = 3610 * time.Second
	wallClockRoom = 2 * time.Second
	// maxMessageAge: beyond it the stream is opened anew; its connection may have been slow to open.
	maxMessageAge = 2 * time.Second
	// maxMessageAhead: a message that reports a read so far ahead proves nothing; this machine was suspended.
	maxMessageAhead = time.Second
)

var errStale = errors.New("the stream says nothing about the present")

// revocations is what is revoked, as far as this process knows, and how far that is.
type revocations struct {
	maxEntries int

	mutex           sync.RWMutex
	sessions        map[string]time.Time // until when; has a monotonic reading, which comparisons use
	keys            map[string]time.Time
	sequence        uint64
	tip             string
	heardAt         time.Time // has a monotonic reading, which time.Sub uses
	heardAtWall     time.Time // without one
	serverReadAt    time.Time // by the clock of token-service; zero if it does not say
	rules           *tokenRules
	nextRead        chan struct{} // closed by the next read that is heard of
	hasKnownAll     bool
	hasUnknownKind  bool
	incompleteUntil time.Time // after a lack of room: until no token that it may concern is valid
	forgotAt        time.Time
	isFirstMessage  bool
}

func newRevocations(maxEntries int) *revocations {
	return &revocations{
		maxEntries: maxEntries, sessions: map[string]time.Time{}, keys: map[string]time.Time{}, nextRead: make(chan struct{}),
	}
}

// begin is called when a stream is opened: what token-service said of its tokens on an earlier one may be of another version.
func (r *revocations) begin() (sequence uint64, tip string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.isFirstMessage = true
	return r.sequence, r.tip
}

// apply takes in a message that was received at now on a stream that was opened at openedAt. It returns errStale if the
// stream is to be opened anew. After a revocation of an unknown kind memory is not trusted any more.
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
			r.hasUnknownKind = true
		}
	}
	r.forgetEnded(now)
	if message.GetRules() != nil {
		r.rules = rulesOf(message.GetRules())
	} else if r.isFirstMessage {
		r.rules = nil
	}
	r.isFirstMessage = false
	r.sequence, r.tip = message.GetSequence(), message.GetTip()
	if !message.GetCaughtUp() {
		return nil
	}
	// The server began the stream after it was opened here, so it read the log at this moment or later.
	readAt := openedAt.Add(time.Duration(message.GetElapsedMs()) * time.Millisecond)
	if readAt.Sub(now) > maxMessageAhead {
		return errStale
	}
	r.hasKnownAll = true
	if readAt.After(now) {
		readAt = now
	}
	if !readAt.Before(r.heardAt) {
		r.heardAt, r.heardAtWall = readAt, now.Round(0)
		r.serverReadAt = time.Time{}
		if message.GetReadAt().IsValid() {
			r.serverReadAt = message.GetReadAt().AsTime()
		}
	}
	close(r.nextRead)
	r.nextRead = make(chan struct{})
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
	case until.After(r.incompleteUntil):
		r.incompleteUntil = until
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
	return r.has(principal.SessionID, principal.KeyID) || r.has("", principal.OriginKeyID) ||
		principal.Kind == KindClient && (r.has(principal.TokenID, "") || r.has(principal.OriginTokenID, ""))
}

// isFresh says whether everything revoked more than staleAfter ago is known here, and understood.
func (r *revocations) isFresh(now time.Time) bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return r.hasHeard(now) && !r.hasUnknownKind && !now.Before(r.incompleteUntil)
}

// isHeard says whether all messages older than staleAfter have come.
func (r *revocations) isHeard(now time.Time) bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return r.hasHeard(now)
}

func (r *revocations) hasHeard(now time.Time) bool {
	// The monotonic clock stops while the machine is suspended.
	isAwake := now.Round(0).Sub(r.heardAtWall) <= staleAfter+wallClockRoom
	return r.hasKnownAll && isAwake && now.Sub(r.heardAt) <= staleAfter
}

// knowsAllKinds is false for good after a revocation that this version does not understand.
func (r *revocations) knowsAllKinds() bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return !r.hasUnknownKind
}

// known is what token-service said of its tokens, and its time, at most 3 s ahead. Nil and zero in silence, or if it is too old
// to say so.
func (r *revocations) known(now time.Time) (*tokenRules, time.Time) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if !r.hasHeard(now) {
		return nil, time.Time{}
	}
	return r.rules, r.serverTime(now)
}

// serverNow is the time of token-service, at most 3 s ahead. In silence it is this machine's time, if that is later, because
// the monotonic clock stops while the machine is suspended.
func (r *revocations) serverNow(now time.Time) time.Time {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if reported := r.serverTime(now); !reported.IsZero() && (r.hasHeard(now) || reported.After(now)) {
		return reported
	}
	return now
}

func (r *revocations) serverTime(now time.Time) time.Time {
	if r.serverReadAt.IsZero() {
		return time.Time{}
	}
	return r.serverReadAt.Add(now.Sub(r.heardAt))
}

// awaitRead waits for a read of the log that began after since. It is false if the context ends first.
func (r *revocations) awaitRead(ctx context.Context, since time.Time) bool {
	for {
		r.mutex.RLock()
		isRead, next := r.hasKnownAll && !r.heardAt.Before(since), r.nextRead
		r.mutex.RUnlock()
		if isRead {
			return true
		}
		select {
		case <-next:
		case <-ctx.Done():
			return false
		}
	}
}
