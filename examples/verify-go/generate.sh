#!/bin/sh
# Generates gen/ from the contract. Needs Go, and `npm ci` in the repository for buf.
set -eu
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
GOBIN=$tools go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$tools go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
proto=../../proto
PATH=$tools:$PATH ../../node_modules/.bin/buf generate $proto \
  --path $proto/gatehouse/token/v1/principal.proto \
  --path $proto/gatehouse/token/v1/token_service.proto
