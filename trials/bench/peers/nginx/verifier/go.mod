module gatehouse/trials/bench/verifier

go 1.24

require (
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/hashicorp/golang-lru/v2 v2.0.7
)
