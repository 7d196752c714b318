#!/bin/sh
# Writes src/gatehouse_token_client/_gen from the contract. Needs grpcio-tools of pyproject.toml in $PYTHON.
set -eu
cd "$(dirname "$0")"
out=${1:-src/gatehouse_token_client/_gen}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Under names of this package: a service that also generates code from proto/ would claim the same ones, in one pool for all.
contract=$folder/proto/gatehouse/tokenclient/v1
mkdir -p "$contract"
for name in principal token_service; do
  sed 's/gatehouse\.token\.v1/gatehouse.tokenclient.v1/; s#gatehouse/token/v1#gatehouse/tokenclient/v1#' \
    "../../proto/gatehouse/token/v1/$name.proto" > "$contract/$name.proto"
done
"${PYTHON:-python3}" -m grpc_tools.protoc --proto_path="$folder/proto" --python_out="$folder" --pyi_out="$folder" \
  gatehouse/tokenclient/v1/principal.proto gatehouse/tokenclient/v1/token_service.proto
rm -rf "$out" && mkdir -p "$out" && : > "$out/__init__.py"
# Inside this package, so that no top-level package `gatehouse` is taken.
for file in "$folder"/gatehouse/tokenclient/v1/*; do
  sed 's/^from gatehouse\.tokenclient\.v1 import/from . import/' "$file" > "$out/${file##*/}"
done
