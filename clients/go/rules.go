package gatehouse

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	tokenv1 "gatehouse.example/gatehouse/internal/gen/gatehouse/tokenclient/v1"
)

const (
	maxTokenBytes       = 4096
	signatureCharacters = 86
	// expiredForCertain exceeds the leeway of token-service (5 s) plus the uncertainty of its time (3 s).
	expiredForCertain = 10 * time.Second
)

var (
	tokenShape = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)
	apiKeyForm = regexp.MustCompile(`^gh_[0-9a-f]{32}_[A-Za-z0-9_-]{43}$`)
	keyIDForm  = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
)

// tokenRules is what token-service says of the tokens that it accepts.
type tokenRules struct {
	issuer     string
	algorithms map[string]string // by `kid`
}

func rulesOf(message *tokenv1.TokenRules) *tokenRules {
	algorithms := make(map[string]string, len(message.GetKeys()))
	for _, key := range message.GetKeys() {
		algorithms[key.GetKeyId()] = key.GetAlgorithm()
	}
	return &tokenRules{message.GetIssuer(), algorithms}
}

// screening is what can be said of text without a call.
type screening int

const (
	isPlausible screening = iota // proves nothing
	isInvalid
	isExpired
	hasUnknownKey
)

// screen finds text that token-service would refuse whatever its signature. Rules may be nil: unknown. serverNow is zero if unknown.
func (options Options) screen(text string, rules *tokenRules, serverNow time.Time) screening {
	if apiKeyForm.MatchString(text) && (options.Audience == "" || options.AcceptsIssuer) {
		return isPlausible
	}
	if len(text) > maxTokenBytes || !tokenShape.MatchString(text) {
		return isInvalid
	}
	if rules == nil {
		return isPlausible
	}
	audience := rules.issuer
	if own := options.audienceFor(text); own != nil {
		audience = *own
	}
	return rules.screen(strings.Split(text, "."), audience, serverNow)
}

func (rules *tokenRules) screen(segments []string, audience string, serverNow time.Time) screening {
	header, claims := jsonObject(segments[0]), jsonObject(segments[1])
	keyID, _ := header["kid"].(string)
	if len(header) != 3 || header["typ"] != "at+jwt" || !keyIDForm.MatchString(keyID) || len(segments[2]) != signatureCharacters {
		return isInvalid
	}
	expiresAt, hasEnd := claims["exp"].(float64)
	if claims["iss"] != rules.issuer || claims["aud"] != audience || !hasEnd {
		return isInvalid
	}
	algorithm, isKnown := rules.algorithms[keyID]
	switch {
	case !isKnown && header["alg"] != "EdDSA" && header["alg"] != "ES256", isKnown && header["alg"] != algorithm:
		return isInvalid
	// Before the key: a key leaves when its last token has ended.
	case !serverNow.IsZero() && expiresAt+expiredForCertain.Seconds() <= float64(serverNow.UnixMilli())/1_000:
		return isExpired
	case !isKnown:
		return hasUnknownKey
	default:
		return isPlausible
	}
}

// claimedAudience is what the token says itself; nobody has checked it. Empty if it says nothing.
func claimedAudience(token string) string {
	segments := strings.Split(token, ".")
	if len(segments) != 3 {
		return ""
	}
	audience, _ := jsonObject(segments[1])["aud"].(string)
	return audience
}

// jsonObject is nil if the segment is not base64url in its one form, or not of an object.
func jsonObject(segment string) map[string]any {
	data, err := base64.RawURLEncoding.Strict().DecodeString(segment)
	var object map[string]any
	if err != nil || json.Unmarshal(data, &object) != nil {
		return nil
	}
	return object
}

// audienceFor is whose token this must be. Nil means the issuer's.
func (options Options) audienceFor(token string) *string {
	if options.Audience == "" || options.AcceptsIssuer && claimedAudience(token) != options.Audience {
		return nil
	}
	return &options.Audience
}

// isFor denies an answer that does not repeat the audience: it is not the answer to this question.
func isFor(answer *tokenv1.VerifyTokenResponse, audience *string) bool {
	return audience == nil || answer.GetPrincipal().GetAudience() == *audience
}
