package gatehouse

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

// assertRefusal checks what all refusals have.
func assertRefusal(t *testing.T, code string, response *httptest.ResponseRecorder) {
	t.Helper()
	header := response.Header()
	if header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" ||
		(header.Get("Retry-After") == "1") != (response.Code == http.StatusServiceUnavailable) {
		t.Error(header)
	}
	var answer struct {
		Success *bool  `json:"success"`
		Message string `json:"message"`
	}
	err := json.Unmarshal(response.Body.Bytes(), &answer)
	if err != nil || answer.Success == nil || *answer.Success || answer.Message != messages[code] || answer.Message == "" {
		t.Error(response.Body, err)
	}
}

func TestTheMiddlewareAnswers(t *testing.T) {
	inactive := func(reason tokenv1.InactiveReason) func() (*tokenv1.VerifyTokenResponse, error) {
		return func() (*tokenv1.VerifyTokenResponse, error) { return &tokenv1.VerifyTokenResponse{Reason: reason}, nil }
	}
	const invalid = `Bearer error="invalid_token"`
	for name, row := range map[string]struct {
		authorization []string
		answer        func() (*tokenv1.VerifyTokenResponse, error)
		status        int
		code          string
		challenge     string
	}{
		"a good token":      {[]string{"bEaReR " + goodToken}, active, 200, "user-1", ""},
		"no header":         {nil, active, 401, "token_missing", "Bearer"},
		"another scheme":    {[]string{"Basic YTpi"}, active, 401, "token_missing", "Bearer"},
		"no token":          {[]string{"Bearer "}, active, 401, "token_invalid", invalid},
		"two headers":       {[]string{"Bearer " + goodToken, "Bearer " + goodToken}, active, 401, "token_invalid", invalid},
		"another and it":    {[]string{"Basic YTpi", "Bearer " + goodToken}, active, 401, "token_invalid", invalid},
		"two others":        {[]string{"Basic YTpi", "Basic YTpi"}, active, 401, "token_missing", "Bearer"},
		"two spaces":        {[]string{"Bearer  " + goodToken}, active, 401, "token_invalid", invalid},
		"something behind":  {[]string{"Bearer " + goodToken + " x"}, active, 401, "token_invalid", invalid},
		"an expired token":  {[]string{"Bearer " + goodToken}, inactive(tokenv1.InactiveReason_INACTIVE_REASON_EXPIRED), 401, "token_expired", invalid},
		"a revoked token":   {[]string{"Bearer " + goodToken}, inactive(tokenv1.InactiveReason_INACTIVE_REASON_REVOKED), 401, "token_invalid", invalid},
		"a client":          {[]string{"Bearer " + goodToken}, func() (*tokenv1.VerifyTokenResponse, error) { return answerForClient(), nil }, 403, "forbidden", `Bearer error="insufficient_scope"`},
		"nobody to ask":     {[]string{"Bearer " + goodToken}, unavailable, 503, "service_unavailable", ""},
		"an expired answer": {[]string{"Bearer " + goodToken}, func() (*tokenv1.VerifyTokenResponse, error) { return answerFor(-time.Second), nil }, 200, "user-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			verifier, fake, _ := start(t)
			fake.answer(row.answer)
			handler := RequireBearer(verifier, Authenticated, http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
				principal, _ := PrincipalOf(request)
				_, _ = io.WriteString(response, principal.UserID)
			}))
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			request.Header["Authorization"] = row.authorization
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, request)
			if response.Code != row.status || !strings.Contains(response.Body.String(), row.code) ||
				response.Header().Get("WWW-Authenticate") != row.challenge {
				t.Fatal(response.Code, response.Body, response.Header())
			}
			if row.status != 200 {
				assertRefusal(t, row.code, response)
			}
		})
	}
}
