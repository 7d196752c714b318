package gatehouse

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

func expect(t *testing.T, verifier *Verifier, want error) {
	t.Helper()
	principal, err := verifier.Verify(context.Background(), goodToken)
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	if (err == nil) != (principal.UserID == "user-1") {
		t.Fatalf("error %v with principal %+v", err, principal)
	}
}

func expectCalls(t *testing.T, fake *fakeTokenService, want int32) {
	t.Helper()
	if got := fake.calls.Load(); got != want {
		t.Fatalf("%d VerifyToken calls, want %d", got, want)
	}
}

func unavailable() (*tokenv1.VerifyTokenResponse, error) {
	return nil, status.Error(codes.Unavailable, "away")
}

func TestATokenIsAskedForOnceAndThenKnown(t *testing.T) {
	verifier, fake, _ := start(t)
	for range 3 {
		expect(t, verifier, nil)
	}
	expectCalls(t, fake, 1)
}

func TestAKnownTokenIsRefusedOnceItsSessionHasEnded(t *testing.T) {
	verifier, fake, _ := start(t)
	expect(t, verifier, nil)
	fake.send <- endOfSession(1, "another")
	fake.send <- endOfSession(2, "session-1")
	eventually(t, func() bool { return lastSequence(verifier) == 2 })
	expect(t, verifier, ErrRevoked)
	expectCalls(t, fake, 1)
}

func TestARevocationThatOvertakesTheAnswerWins(t *testing.T) {
	verifier, fake, _ := start(t)
	fake.answer(func() (*tokenv1.VerifyTokenResponse, error) {
		fake.send <- endOfSession(1, "session-1")
		eventually(t, func() bool { return lastSequence(verifier) == 1 })
		return active()
	})
	expect(t, verifier, ErrRevoked)
}

func lastSequence(verifier *Verifier) uint64 {
	verifier.revoked.mutex.RLock()
	defer verifier.revoked.mutex.RUnlock()
	return verifier.revoked.sequence
}

func TestARevocationIsKeptByTheMonotonicClockWhateverItsEndSays(t *testing.T) {
	now := time.Now()
	revoked := newRevocations(10)
	message := endOfSession(1, "a")
	message.KeepS, message.Tip = 910, "mark"
	message.Revocations[0].ExpiresAt = timestamppb.New(now.Add(-time.Hour))
	if err := revoked.apply(message, now, now); err != nil {
		t.Fatal(err)
	}
	if _, tip := revoked.begin(); tip != "mark" {
		t.Fatal(tip)
	}
	for seconds, isKept := range map[int]bool{909: true, 911: false} {
		at := now.Add(time.Duration(seconds) * time.Second)
		copied := newRevocations(10)
		_ = copied.apply(message, now, now)
		_ = copied.apply(heartbeat(1), at, at)
		if copied.has("a", "") != isKept {
			t.Fatal(seconds)
		}
	}
}

func TestNoTokenStaysInMemoryForLongerThanItsRevocationWould(t *testing.T) {
	verifier, fake, clock := start(t)
	fake.answer(func() (*tokenv1.VerifyTokenResponse, error) { return answerFor(time.Hour), nil })
	expect(t, verifier, nil)
	for _, keepS := range []uint32{40, 910} {
		message := heartbeat(1)
		message.KeepS = keepS
		fake.send <- message
	}
	eventually(t, func() bool { return !verifier.revoked.keepsSince(clock.now(), clock.now().Add(40*time.Second)) })
	clock.advance(41 * time.Second)
	eventually(t, func() bool {
		select {
		case fake.send <- heartbeat(1): // on a stream that has been opened anew
		default:
		}
		return verifier.Ready() == nil
	})
	expect(t, verifier, nil)
	expectCalls(t, fake, 2)
}

func TestThreeSecondsCountFromTheReadThatAMessageReports(t *testing.T) {
	openedAt := time.Now()
	now := openedAt.Add(2100 * time.Millisecond)
	revoked := newRevocations(10)
	message := heartbeat(1)
	message.ElapsedMs = 3200
	if err := revoked.apply(message, openedAt, now); err != errStale || revoked.isFresh(now, Principal{}) {
		t.Fatal(err)
	}
	message.ElapsedMs = 0
	if err := revoked.apply(message, openedAt, now); err != errStale || !revoked.isFresh(openedAt.Add(staleAfter), Principal{}) {
		t.Fatal(err)
	}
	message.ElapsedMs = 500
	if err := revoked.apply(message, openedAt, now); err != nil || !revoked.isFresh(openedAt.Add(3500*time.Millisecond), Principal{}) {
		t.Fatal(err)
	}
	if revoked.isFresh(openedAt.Add(3501*time.Millisecond), Principal{}) {
		t.Fatal("3 s count from the read")
	}
}

func TestFromItsExpiryOnAKnownTokenIsAskedForAgain(t *testing.T) {
	verifier, fake, clock := start(t)
	fake.answer(func() (*tokenv1.VerifyTokenResponse, error) { return answerFor(time.Minute), nil })
	expect(t, verifier, nil)
	clock.advance(time.Minute)
	fake.answer(func() (*tokenv1.VerifyTokenResponse, error) {
		return &tokenv1.VerifyTokenResponse{Reason: tokenv1.InactiveReason_INACTIVE_REASON_EXPIRED}, nil
	})
	expect(t, verifier, ErrExpired)
	expectCalls(t, fake, 2)
}

func TestAfterThreeSilentSecondsEveryTokenIsAskedForAndThenNeitherAcceptedNorRefused(t *testing.T) {
	verifier, fake, clock := start(t)
	expect(t, verifier, nil)
	clock.advance(staleAfter + time.Millisecond)
	expect(t, verifier, nil)
	expect(t, verifier, nil)
	expectCalls(t, fake, 3)
	fake.answer(unavailable)
	expect(t, verifier, ErrUnavailable)
	if verifier.Ready() == nil {
		t.Fatal("ready while token-service is silent")
	}
}

func TestANewTokenIsNeitherAcceptedNorRefusedWhileNobodyCanBeAsked(t *testing.T) {
	verifier, fake, _ := start(t)
	fake.answer(unavailable)
	expect(t, verifier, ErrUnavailable)
}

func TestABrokenStreamIsResumedByItsNumber(t *testing.T) {
	verifier, fake, _ := start(t)
	fake.send <- heartbeat(7)
	eventually(t, func() bool { return lastSequence(verifier) == 7 })
	fake.breakUp <- struct{}{}
	if sequence := <-fake.resumed; sequence != 7 {
		t.Fatalf("resumed after %d", sequence)
	}
}

func TestARevocationOfAnUnknownKindEndsTheTrustInMemory(t *testing.T) {
	verifier, fake, _ := start(t)
	expect(t, verifier, nil)
	fake.send <- &tokenv1.WatchRevocationsResponse{Sequence: 1, CaughtUp: true, Revocations: []*tokenv1.Revocation{{Sequence: 1}}}
	eventually(t, func() bool { return lastSequence(verifier) == 1 })
	expect(t, verifier, nil)
	expectCalls(t, fake, 2)
}

func TestManyRequestsWithOneTokenMakeOneCallAndOneThatGivesUpTakesItFromNobody(t *testing.T) {
	verifier, fake, _ := start(t)
	answer := make(chan struct{})
	fake.answer(func() (*tokenv1.VerifyTokenResponse, error) {
		<-answer
		return active()
	})
	ctx, giveUp := context.WithCancel(context.Background())
	gaveUp := make(chan error)
	go func() {
		_, err := verifier.Verify(ctx, goodToken)
		gaveUp <- err
	}()
	var waiting sync.WaitGroup
	for range 50 {
		waiting.Go(func() { expect(t, verifier, nil) })
	}
	eventually(t, func() bool { return fake.calls.Load() == 1 })
	giveUp()
	if err := <-gaveUp; !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	close(answer)
	waiting.Wait()
	expectCalls(t, fake, 1)
}

func TestWhatIsNoTokenNeedsNoCall(t *testing.T) {
	verifier, fake, _ := start(t)
	for _, token := range []string{"", "a.b", "a.b.c.d", "a.b.c ", "a.b.ü", "a.b." + strings.Repeat("c", maxTokenBytes)} {
		if _, err := verifier.Verify(context.Background(), token); !errors.Is(err, ErrInvalid) {
			t.Fatalf("%q: %v", token, err)
		}
	}
	expectCalls(t, fake, 0)
}

func TestWhatIsMissingOrUnknownInAnAnswerMeansDeny(t *testing.T) {
	for name, spoil := range map[string]func(*tokenv1.VerifyTokenResponse){
		"nothing":        func(answer *tokenv1.VerifyTokenResponse) { answer.Active = false },
		"unknown reason": func(answer *tokenv1.VerifyTokenResponse) { answer.Active, answer.Reason = false, 99 },
		"no principal":   func(answer *tokenv1.VerifyTokenResponse) { answer.Principal = nil },
		"no user":        func(answer *tokenv1.VerifyTokenResponse) { answer.Principal.UserId = "" },
		"no session":     func(answer *tokenv1.VerifyTokenResponse) { answer.Principal.SessionId = "" },
		"no role":        func(answer *tokenv1.VerifyTokenResponse) { answer.Principal.Role = "" },
		"unknown role":   func(answer *tokenv1.VerifyTokenResponse) { answer.Principal.Role = "not a role" },
		"no expiry":      func(answer *tokenv1.VerifyTokenResponse) { answer.Principal.ExpiresAt = nil },
		"impossible time": func(answer *tokenv1.VerifyTokenResponse) {
			answer.Principal.ExpiresAt = &timestamppb.Timestamp{Nanos: -1}
		},
	} {
		answer := answerFor(time.Hour)
		spoil(answer)
		if _, err := decode(answer); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheCacheForgetsWhatWasUsedLongestAgo(t *testing.T) {
	cache := newMemory[cached](2)
	for number := range 3 {
		cache.get("0")
		cache.put(strconv.Itoa(number), cached{})
	}
	_, has0 := cache.get("0")
	_, has1 := cache.get("1")
	_, has2 := cache.get("2")
	if !has0 || has1 || !has2 || len(cache.entries) != 2 || cache.order.Len() != 2 {
		t.Fatal(has0, has1, has2, len(cache.entries))
	}
}

func TestRevocationsBeyondTheLimitEndTheTrustInMemoryWhileTheirTokensLive(t *testing.T) {
	now := time.Now()
	revoked := newRevocations(1)
	if revoked.apply(endOfSession(1, "a"), now, now) != nil || !revoked.isFresh(now, Principal{}) {
		t.Fatal("one must fit")
	}
	if revoked.apply(endOfSession(2, "b"), now, now) != nil || revoked.isFresh(now, Principal{}) || !revoked.isHeard(now) {
		t.Fatal("the second was dropped silently")
	}
	before := now.Add(maxKeep - time.Second)
	if _ = revoked.apply(heartbeat(3), before, before); revoked.isFresh(before, Principal{}) {
		t.Fatal("a token of the session that was dropped may still live")
	}
	after := now.Add(maxKeep)
	if _ = revoked.apply(heartbeat(4), after, after); !revoked.isFresh(after, Principal{}) {
		t.Fatal("no token that it may concern is left")
	}
}

func TestAfterARevocationOfAnUnknownKindEveryTokenNeedsACallAndTheVerifierIsReady(t *testing.T) {
	verifier, fake, clock := start(t)
	expect(t, verifier, nil)
	unknown := heartbeat(1)
	unknown.Revocations = []*tokenv1.Revocation{{Sequence: 1}}
	fake.send <- unknown
	eventually(t, func() bool { return lastSequence(verifier) == 1 })
	expect(t, verifier, nil)
	expectCalls(t, fake, 2)
	if err := verifier.Ready(); err != nil {
		t.Fatal(err)
	}
	clock.advance(staleAfter + 1)
	if verifier.Ready() == nil {
		t.Fatal("ready in silence")
	}
}

func TestMemoryIsNotTrustedBeforeTheBacklogIsKnown(t *testing.T) {
	now := time.Now()
	revoked := newRevocations(10)
	backlog := endOfSession(1, "a")
	backlog.CaughtUp = false
	if _ = revoked.apply(backlog, now, now); revoked.isFresh(now, Principal{}) || !revoked.has("a", "") {
		t.Fatal("a part of the log is not the log")
	}
	if _ = revoked.apply(heartbeat(1), now, now); !revoked.isFresh(now.Add(staleAfter), Principal{}) || revoked.isFresh(now.Add(staleAfter+1), Principal{}) {
		t.Fatal("fresh for exactly 3 s")
	}
}

func TestATokenIsForgottenWhenTokenServiceSaysWhateverTheWallClock(t *testing.T) {
	verifier, fake, clock := start(t)
	fake.answer(func() (*tokenv1.VerifyTokenResponse, error) {
		answer := answerFor(time.Hour) // of a token-service whose clock is an hour ahead
		answer.ExpiresInMs = 2_000
		return answer, nil
	})
	expect(t, verifier, nil)
	clock.advance(time.Second / 2)
	expect(t, verifier, nil)
	expectCalls(t, fake, 1)
	clock.advance(3 * time.Second / 2)
	expect(t, verifier, nil)
	expectCalls(t, fake, 2)
}

func TestACallerWhoMissesTheEndOfACallSharesItsAnswer(t *testing.T) {
	verifier, fake, _ := start(t)
	looked := verifier.now()
	expect(t, verifier, nil)
	shared, err := verifier.question(goodToken, looked)
	if err != nil {
		t.Fatal(err)
	}
	if <-shared.done; shared.err != nil || shared.principal.UserID != "user-1" {
		t.Fatal(shared)
	}
	expectCalls(t, fake, 1)
	again, err := verifier.question(goodToken, verifier.now().Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	<-again.done
	expectCalls(t, fake, 2)
}
