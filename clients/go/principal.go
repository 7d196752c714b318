package gatehouse

import (
	"regexp"
	"time"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

// Role is what a user may do: a name of access.yaml.
type Role string

const (
	RoleUser    Role = "USER"
	RoleAdmin   Role = "ADMIN"
	RoleAuditor Role = "AUDITOR"
)

// Kind says whether a user or a program calls.
type Kind string

const (
	KindUser   Kind = "user"
	KindClient Kind = "client"
)

// Principal is who a verified access token or API key speaks for.
type Principal struct {
	Kind          Kind           `json:"kind"`
	UserID        string         `json:"userId"`    // empty for clients
	SessionID     string         `json:"sessionId"` // of a client: its credential's id
	Role          Role           `json:"role"`      // empty for clients
	ClientID      string         `json:"clientId"`  // empty for users
	Scopes        []string       `json:"scopes"`    // permissions that a client was granted; empty for users
	TokenID       string         `json:"tokenId"`
	OriginTokenID string         `json:"originTokenId"` // of the token that this one was exchanged for, and that ends it; empty for others
	KeyID         string         `json:"keyId"`         // empty for an API key
	OriginKeyID   string         `json:"originKeyId"`   // of the token that this one was exchanged for; empty for others, and if it was an API key
	AMR           []string       `json:"amr"`           // RFC 8176
	ACR           AssuranceLevel `json:"acr"`           // level of assurance
	AuthTime      time.Time      `json:"authTime"`      // the last moment at which the session reached ACR
	IssuedAt      time.Time      `json:"issuedAt"`
	ExpiresAt     time.Time      `json:"expiresAt"`
}

var roleName = regexp.MustCompile("^[A-Z][A-Z0-9_]{0,31}$")

// decode turns an answer into a principal or a refusal. What is missing or unknown in it means "deny".
func decode(answer *tokenv1.VerifyTokenResponse) (Principal, error) {
	if !answer.GetActive() {
		switch answer.GetReason() {
		case tokenv1.InactiveReason_INACTIVE_REASON_EXPIRED:
			return Principal{}, ErrExpired
		case tokenv1.InactiveReason_INACTIVE_REASON_REVOKED:
			return Principal{}, ErrRevoked
		default:
			return Principal{}, ErrInvalid
		}
	}
	message := answer.GetPrincipal()
	hasIDs := message.GetUserId() != "" && message.GetSessionId() != "" && message.GetTokenId() != ""
	hasTimes := message.GetIssuedAt().IsValid() && message.GetExpiresAt().IsValid()
	// A proof of the token's key is not checked here.
	if !hasIDs || !hasTimes || message.GetConfirmation() != nil {
		return Principal{}, ErrInvalid
	}
	principal := Principal{
		Scopes:        []string{},
		AMR:           []string{},
		SessionID:     message.GetSessionId(),
		TokenID:       message.GetTokenId(),
		OriginTokenID: message.GetOriginTokenId(),
		KeyID:         message.GetKeyId(),
		OriginKeyID:   message.GetOriginKeyId(),
		IssuedAt:      message.GetIssuedAt().AsTime(),
		ExpiresAt:     message.GetExpiresAt().AsTime(),
	}
	switch message.GetKind() {
	case tokenv1.PrincipalKind_PRINCIPAL_KIND_CLIENT:
		return principal.ofClient(message)
	case tokenv1.PrincipalKind_PRINCIPAL_KIND_USER:
		return principal.ofUser(message)
	default:
		return Principal{}, ErrInvalid
	}
}

func (principal Principal) ofClient(message *tokenv1.Principal) (Principal, error) {
	if message.GetClientId() != message.GetUserId() || len(message.GetScopes()) == 0 {
		return Principal{}, ErrInvalid
	}
	principal.Kind, principal.ClientID, principal.Scopes = KindClient, message.GetClientId(), message.GetScopes()
	principal.ACR, principal.AuthTime = OneFactor, principal.IssuedAt
	return principal, nil
}

func (principal Principal) ofUser(message *tokenv1.Principal) (Principal, error) {
	role := Role(message.GetRole())
	level, isLevelKnown := levelOf(message)
	if !roleName.MatchString(string(role)) || !isLevelKnown || message.GetKeyId() == "" || !message.GetAuthTime().IsValid() {
		return Principal{}, ErrInvalid
	}
	principal.Kind, principal.UserID, principal.Role = KindUser, message.GetUserId(), role
	principal.AMR = append(principal.AMR, message.GetAmr()...)
	principal.ACR, principal.AuthTime = level, message.GetAuthTime().AsTime()
	return principal, nil
}
