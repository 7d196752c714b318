package gatehouse

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strconv"
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
	parts           map[uint32]*part // of the users, by number; 0 is always there
	serverReadAt    time.Time        // of part 0, by the clock of token-service; zero if it does not say
	rules           *tokenRules
	nextRead        chan struct{} // closed by the next read that is heard of
	hasUnknownKind  bool
	leastKept       time.Duration // the shortest that was said
	incompleteUntil time.Time     // after a lack of room: until no token that it may concern is valid
	forgotAt        time.Time
	isFirstMessage  bool
}

// part is what is known of the users in one database (docs/decisions/parts.md).
type part struct {
	heardAt     time.Time // of the newest read; has a monotonic reading, which time.Sub uses; zero before the first
	heardAtWall time.Time // without one
	slots       []byte    // of that read
	said        []byte    // slots that count with the next read; nil if they have not changed
}

// allSlots is what one database has that is the only one.
var allSlots = bytes.Repeat([]byte{0xff}, 512)

func newRevocations(maxEntries int) *revocations {
	return &revocations{
		maxEntries: maxEntries, sessions: map[string]time.Time{}, keys: map[string]time.Time{},
		parts: map[uint32]*part{0: {}}, nextRead: make(chan struct{}), leastKept: maxKeep,
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
	r.leastKept = min(r.leastKept, least)
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
	state := message.GetPart()
	if state == nil {
		maps.DeleteFunc(r.parts, func(number uint32, _ *part) bool { return number > 0 })
		state = &tokenv1.PartState{
			CaughtUp: message.GetCaughtUp(), ElapsedMs: message.GetElapsedMs(), ReadAt: message.GetReadAt(), Slots: allSlots,
		}
	}
	return r.hear(state, openedAt, now)
}

// hear takes in how current one part is.
func (r *revocations) hear(state *tokenv1.PartState, openedAt, now time.Time) error {
	of, isKnown := r.parts[state.GetNumber()]
	if !isKnown {
		of = &part{}
		r.parts[state.GetNumber()] = of
	}
	if len(state.GetSlots()) > 0 {
		of.said = state.GetSlots()
	}
	if !state.GetCaughtUp() {
		return nil
	}
	// The server began the stream after it was opened here, so it read the log at this moment or later.
	readAt := openedAt.Add(time.Duration(state.GetElapsedMs()) * time.Millisecond)
	if readAt.Sub(now) > maxMessageAhead {
		return errStale
	}
	if readAt.After(now) {
		readAt = now
	}
	if !readAt.Before(of.heardAt) {
		of.heardAt, of.heardAtWall = readAt, now.Round(0)
		if of.said != nil {
			of.slots, of.said = of.said, nil
		}
		if state.GetNumber() == 0 {
			r.serverReadAt = time.Time{}
			if state.GetReadAt().IsValid() {
				r.serverReadAt = state.GetReadAt().AsTime()
			}
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

// keepsSince says whether nothing that was revoked since asked is forgotten. While token-service's replicas are set to another life
// of a token, tokens of the longer one are in memory beside revocations of the shorter one.
func (r *revocations) keepsSince(asked, now time.Time) bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return now.Sub(asked) < r.leastKept
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

// isFresh says whether everything revoked more than staleAfter ago that can concern this principal is known here, and understood.
func (r *revocations) isFresh(now time.Time, principal Principal) bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	isKnown := r.hasHeard(now) && !r.hasUnknownKind && !now.Before(r.incompleteUntil)
	return isKnown && (principal.Kind == KindClient || r.hasHeardOf(slotOf(principal.SessionID), now))
}

// hasHeardOf says whether a part that has the slot is current. During a move two may: what either knows is all there was at its read.
func (r *revocations) hasHeardOf(slot int, now time.Time) bool {
	for _, part := range r.parts {
		if slot/8 < len(part.slots) && part.slots[slot/8]&(0x80>>(slot%8)) != 0 && part.hasHeard(now) {
			return true
		}
	}
	return false
}

// slotOf is the number in the last three hexadecimal digits, 0 if there are none.
func slotOf(sessionID string) int {
	slot, err := strconv.ParseUint(sessionID[max(0, len(sessionID)-3):], 16, 12)
	if err != nil {
		return 0
	}
	return int(slot)
}

// isHeard says whether all messages older than staleAfter have come.
func (r *revocations) isHeard(now time.Time) bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return r.hasHeard(now)
}

// hasHeard is of part 0, which has the keys.
func (r *revocations) hasHeard(now time.Time) bool { return r.parts[0].hasHeard(now) }

func (p *part) hasHeard(now time.Time) bool {
	// The monotonic clock stops while the machine is suspended.
	isAwake := now.Round(0).Sub(p.heardAtWall) <= staleAfter+wallClockRoom
	return isAwake && now.Sub(p.heardAt) <= staleAfter
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
	return r.serverReadAt.Add(now.Sub(r.parts[0].heardAt))
}

// awaitRead waits for a read of the log that began after since. It is false if the context ends first.
func (r *revocations) awaitRead(ctx context.Context, since time.Time) bool {
	for {
		r.mutex.RLock()
		isRead, next := !r.parts[0].heardAt.Before(since), r.nextRead
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
