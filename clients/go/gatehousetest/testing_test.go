package gatehousetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"gatehouse.example/gatehouse"
	"gatehouse.example/gatehouse/gatehousetest"
)

var (
	ada   = gatehousetest.User{UserID: "ada", Role: gatehouse.RoleUser}
	shop  = gatehousetest.Client{ClientID: "shop", Scopes: []string{"payments:read"}}
	admit = gatehouse.RouteAuth{Roles: []gatehouse.Role{gatehouse.RoleUser}, Scopes: shop.Scopes}
)

const ok = ""

// callHTTP says who called, or the code of the refusal.
func callHTTP(t *testing.T, verifier *gatehouse.Verifier, token string, guards ...gatehouse.AssuranceDemand) (caller gatehouse.Principal, code string) {
	t.Helper()
	var next http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		caller, _ = gatehouse.PrincipalOf(request)
	})
	for _, demand := range guards {
		next = gatehouse.RequireAssurance(demand, next)
	}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer "+token)
	response := httptest.NewRecorder()
	gatehouse.RequireBearer(verifier, admit, next).ServeHTTP(response, request)
	var answer struct{ Error struct{ Code string } }
	if response.Code != http.StatusOK {
		if err := json.Unmarshal(response.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
	}
	return caller, answer.Error.Code
}

func callRPC(t *testing.T, verifier *gatehouse.Verifier, token string) (caller gatehouse.Principal, code string) {
	t.Helper()
	const method = "/orders.v1.OrderService/ListOrders"
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+token))
	intercept := gatehouse.UnaryInterceptor(verifier, gatehouse.Methods{method: admit})
	_, err := intercept(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) {
		caller, _ = gatehouse.PrincipalIn(ctx)
		return nil, nil
	})
	for _, detail := range status.Convert(err).Details() {
		code = detail.(*errdetails.ErrorInfo).GetReason()
	}
	return caller, code
}

// assertCode asks both adapters.
func assertCode(t *testing.T, verifier *gatehousetest.Verifier, token, want string) gatehouse.Principal {
	t.Helper()
	caller, code := callHTTP(t, verifier.Verifier, token)
	rpcCaller, rpcCode := callRPC(t, verifier.Verifier, token)
	if code != want || rpcCode != want || !reflect.DeepEqual(caller, rpcCaller) {
		t.Fatalf("want %q: %q %q %v %v", want, code, rpcCode, caller, rpcCaller)
	}
	return caller
}

func TestWhatItIssuesIsAcceptedAndNothingElse(t *testing.T) {
	verifier := gatehousetest.NewVerifier(t)
	user := ada
	user.SessionID = "s"
	seen := assertCode(t, verifier, verifier.Issue(user), ok)
	if seen.Kind != gatehouse.KindUser || seen.UserID != "ada" || seen.Role != gatehouse.RoleUser || seen.SessionID != "s" ||
		seen.ACR != gatehouse.OneFactor || !reflect.DeepEqual(seen.AMR, []string{"pwd"}) || seen.ClientID != "" {
		t.Error(seen)
	}
	seen = assertCode(t, verifier, verifier.IssueToClient(shop), ok)
	if seen.Kind != gatehouse.KindClient || seen.ClientID != "shop" || !reflect.DeepEqual(seen.Scopes, shop.Scopes) || seen.UserID != "" {
		t.Error(seen)
	}
	assertCode(t, verifier, verifier.Issue(gatehousetest.User{UserID: "ada", Role: "CLERK"}), "forbidden")
	assertCode(t, verifier, verifier.IssueToClient(gatehousetest.Client{ClientID: "shop", Scopes: []string{"payments:write"}}), "forbidden")
	assertCode(t, verifier, gatehousetest.NewVerifier(t).Issue(ada), "token_invalid")
}

func TestTheEndOfASessionEndsItsTokensAndARevokedTokenOfAClientIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes between two calls
		verifier := gatehousetest.NewVerifier(t)
		user, client := ada, shop
		user.SessionID, client.SessionID = "phone", "credential"
		phone, otherPhone, laptop := verifier.Issue(user), verifier.Issue(user), verifier.Issue(ada)
		key, otherKey := verifier.IssueToClient(client), verifier.IssueToClient(client)
		for _, token := range []string{phone, otherPhone, key} {
			assertCode(t, verifier, token, ok)
		}
		verifier.Revoke(phone)
		verifier.Revoke(key)
		for _, token := range []string{phone, otherPhone, key} {
			assertCode(t, verifier, token, "token_invalid")
		}
		for _, token := range []string{laptop, otherKey} {
			assertCode(t, verifier, token, ok)
		}
		verifier.RevokeSession("credential")
		verifier.RevokeUser("ada")
		for _, token := range []string{laptop, otherKey} {
			assertCode(t, verifier, token, "token_invalid")
		}
		if _, err := verifier.Verify(t.Context(), laptop); !errors.Is(err, gatehouse.ErrRevoked) {
			t.Error(err)
		}
		assertCode(t, verifier, verifier.Issue(ada), ok)
	})
}

func TestATokenExpiresByACallOrByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		verifier := gatehousetest.NewVerifier(t)
		ended, lasting := verifier.Issue(ada), verifier.Issue(ada)
		assertCode(t, verifier, ended, ok)
		verifier.Expire(ended)
		assertCode(t, verifier, ended, "token_expired")
		assertCode(t, verifier, lasting, ok)
		time.Sleep(time.Hour)
		assertCode(t, verifier, lasting, "token_expired")
	})
}

func TestAStepUpIsDemandedByTheLevelAndItsAge(t *testing.T) {
	verifier := gatehousetest.NewVerifier(t)
	demand := gatehouse.AssuranceDemand{ACR: gatehouse.TwoFactors, MaxAge: new(5 * time.Minute)}
	strong, old := ada, ada
	strong.ACR = gatehouse.TwoFactors
	old.ACR, old.AuthTime = gatehouse.Passkey, time.Now().Add(-10*time.Minute)
	for token, want := range map[string]string{
		verifier.Issue(ada): "step_up_required", verifier.Issue(strong): ok, verifier.Issue(old): "step_up_required",
		verifier.IssueToClient(shop): "user_required",
	} {
		if _, code := callHTTP(t, verifier.Verifier, token, demand); code != want {
			t.Errorf("want %q, not %q", want, code)
		}
	}
}

func TestWhileItIsUnavailableEveryCallIsRefusedAndReadinessFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		verifier := gatehousetest.NewVerifier(t)
		token := verifier.Issue(ada)
		assertCode(t, verifier, token, ok)
		verifier.SetAvailable(false)
		assertCode(t, verifier, token, "service_unavailable")
		time.Sleep(4 * time.Second)
		if err := verifier.Ready(); !errors.Is(err, gatehouse.ErrUnavailable) {
			t.Error(err)
		}
		verifier.SetAvailable(true)
		assertCode(t, verifier, token, ok)
		time.Sleep(4 * time.Second)
		if err := verifier.Ready(); err != nil {
			t.Error(err)
		}
	})
}

// failing takes the failure that the test wants.
type failing struct {
	testing.TB
	hasFailed bool
}

func (f *failing) Fatal(...any)          { f.hasFailed = true; runtime.Goexit() }
func (f *failing) Fatalf(string, ...any) { f.Fatal() }

func TestPrincipalsThatNoTokenHasFailTheTestAndTokensOfOthers(t *testing.T) {
	for name, act := range map[string]func(verifier *gatehousetest.Verifier){
		"no user":      func(v *gatehousetest.Verifier) { v.Issue(gatehousetest.User{Role: "USER"}) },
		"a small role": func(v *gatehousetest.Verifier) { v.Issue(gatehousetest.User{UserID: "ada", Role: "user"}) },
		"no role":      func(v *gatehousetest.Verifier) { v.Issue(gatehousetest.User{UserID: "ada"}) },
		"a fourth level": func(v *gatehousetest.Verifier) {
			v.Issue(gatehousetest.User{UserID: "ada", Role: "USER", ACR: 4})
		},
		"no client":      func(v *gatehousetest.Verifier) { v.IssueToClient(gatehousetest.Client{Scopes: shop.Scopes}) },
		"no scope":       func(v *gatehousetest.Verifier) { v.IssueToClient(gatehousetest.Client{ClientID: "shop"}) },
		"another's":      func(v *gatehousetest.Verifier) { v.Revoke("test.another.token") },
		"another's time": func(v *gatehousetest.Verifier) { v.Expire("test.another.token") },
	} {
		f := &failing{TB: t}
		verifier := gatehousetest.NewVerifier(f)
		done := make(chan struct{})
		go func() {
			defer close(done)
			act(verifier)
		}()
		<-done
		if !f.hasFailed {
			t.Error(name)
		}
		verifier.RevokeUser("nobody") // it goes on to work: no lock is held
	}
}
