package gatehouse

import (
	"time"

	tokenv1 "gatehouse.example/verify-go/gen/gatehouse/token/v1"
)

// Role is what a user may do.
type Role string

const (
	RoleUser    Role = "USER"
	RoleAdmin   Role = "ADMIN"
	RoleAuditor Role = "AUDITOR"
)

// Principal is who a verified access token speaks for.
type Principal struct {
	UserID    string    `json:"userId"`
	SessionID string    `json:"sessionId"`
	Role      Role      `json:"role"`
	TokenID   string    `json:"tokenId"`
	KeyID     string    `json:"keyId"`
	AMR       []string  `json:"amr"`      // RFC 8176
	ACR       Level     `json:"acr"`      // level of assurance
	AuthTime  time.Time `json:"authTime"` // the last moment at which the session reached ACR
	IssuedAt  time.Time `json:"issuedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
}

var roles = map[tokenv1.Role]Role{
	tokenv1.Role_ROLE_USER:    RoleUser,
	tokenv1.Role_ROLE_ADMIN:   RoleAdmin,
	tokenv1.Role_ROLE_AUDITOR: RoleAuditor,
}

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
	role, isRoleKnown := roles[message.GetRole()]
	hasIDs := message.GetUserId() != "" && message.GetSessionId() != "" &&
		message.GetTokenId() != "" && message.GetKeyId() != ""
	hasTimes := message.GetAuthTime().IsValid() && message.GetIssuedAt().IsValid() && message.GetExpiresAt().IsValid()
	level, isLevelKnown := levelOf(message)
	if !isRoleKnown || !isLevelKnown || !hasIDs || !hasTimes {
		return Principal{}, ErrInvalid
	}
	return Principal{
		UserID:    message.GetUserId(),
		SessionID: message.GetSessionId(),
		Role:      role,
		TokenID:   message.GetTokenId(),
		KeyID:     message.GetKeyId(),
		AMR:       message.GetAmr(),
		ACR:       level,
		AuthTime:  message.GetAuthTime().AsTime(),
		IssuedAt:  message.GetIssuedAt().AsTime(),
		ExpiresAt: message.GetExpiresAt().AsTime(),
	}, nil
}
