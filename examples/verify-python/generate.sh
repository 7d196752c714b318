#!/bin/sh
# Generates gatehouse/ from the contract. Needs requirements-dev.txt installed.
set -eu
cd "$(dirname "$0")"
rm -rf gatehouse
python -m grpc_tools.protoc --proto_path=../../proto \
  --python_out=. --pyi_out=. --grpc_python_out=. \
  gatehouse/token/v1/principal.proto gatehouse/token/v1/token_service.proto
rm gatehouse/token/v1/principal_pb2_grpc.py # it has no service
