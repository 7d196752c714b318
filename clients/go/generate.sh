#!/bin/sh
# Generates internal/gen/ from the contract. Needs Go, and `npm run tools` in the repository for buf.
set -eu
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
GOBIN=$tools go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$tools go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
# Under names of this module: a service that also generates code from proto/ would claim the same ones, and Go would not start it.
contract=$tools/proto/gatehouse/tokenclient/v1
mkdir -p "$contract"
for name in principal token_service; do
  sed 's/gatehouse\.token\.v1/gatehouse.tokenclient.v1/; s#gatehouse/token/v1#gatehouse/tokenclient/v1#' \
    "../../proto/gatehouse/token/v1/$name.proto" > "$contract/$name.proto"
done
PATH=$tools:$PATH ../../tools/node_modules/.bin/buf generate "$tools/proto"
# On the wire the service has its own name.
sed -i.before 's/gatehouse\.tokenclient\.v1\.TokenService/gatehouse.token.v1.TokenService/g' internal/gen/gatehouse/tokenclient/v1/*_grpc.pb.go
rm internal/gen/gatehouse/tokenclient/v1/*.before
