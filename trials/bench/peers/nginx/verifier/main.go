// Command verifier answers the auth_request of nginx and the forward_auth of Caddy: 200 with the user's id for a valid
// ES256 token of the role, 401 or 403 otherwise. With -remember it verifies the signature of a token only once.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"
)

type claims struct {
	jwt.RegisteredClaims
	Roles []string `json:"roles"`
}

type verifier struct {
	parser *jwt.Parser
	key    any
	role   string
	// known has the claims of tokens that were verified, or is nil.
	known *lru.Cache[string, *claims]
}

func main() {
	socket := flag.String("socket", "", "path of the Unix socket to listen on")
	pemFile := flag.String("pem", "", "file with the public key")
	issuer := flag.String("issuer", "", "iss that tokens must have")
	audience := flag.String("audience", "", "aud that tokens must contain")
	role := flag.String("role", "", "what the claim roles must contain")
	remember := flag.Int("remember", 0, "number of verified tokens to remember")
	flag.Parse()

	text, err := os.ReadFile(*pemFile)
	if err != nil {
		log.Fatal(err)
	}
	key, err := jwt.ParseECPublicKeyFromPEM(text)
	if err != nil {
		log.Fatal(err)
	}
	v := &verifier{key: key, role: *role, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer(*issuer), jwt.WithAudience(*audience),
		jwt.WithExpirationRequired(),
	)}
	if *remember > 0 {
		if v.known, err = lru.New[string, *claims](*remember); err != nil {
			log.Fatal(err)
		}
	}
	listener, err := net.Listen("unix", *socket)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, v))
}

func (v *verifier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !isBearer {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	verified, err := v.verify(token)
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if !slices.Contains(verified.Roles, v.role) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("X-User-Id", verified.Subject)
}

func (v *verifier) verify(token string) (*claims, error) {
	if v.known != nil {
		if known, isKnown := v.known.Get(token); isKnown {
			if time.Now().Before(known.ExpiresAt.Time) {
				return known, nil
			}
			v.known.Remove(token)
		}
	}
	verified := &claims{}
	if _, err := v.parser.ParseWithClaims(token, verified, func(*jwt.Token) (any, error) { return v.key, nil }); err != nil {
		return nil, err
	}
	if v.known != nil {
		v.known.Add(token, verified)
	}
	return verified, nil
}
