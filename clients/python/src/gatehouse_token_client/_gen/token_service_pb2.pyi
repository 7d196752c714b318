import datetime

from . import principal_pb2 as _principal_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InactiveReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INACTIVE_REASON_UNSPECIFIED: _ClassVar[InactiveReason]
    INACTIVE_REASON_INVALID: _ClassVar[InactiveReason]
    INACTIVE_REASON_EXPIRED: _ClassVar[InactiveReason]
    INACTIVE_REASON_REVOKED: _ClassVar[InactiveReason]
INACTIVE_REASON_UNSPECIFIED: InactiveReason
INACTIVE_REASON_INVALID: InactiveReason
INACTIVE_REASON_EXPIRED: InactiveReason
INACTIVE_REASON_REVOKED: InactiveReason

class VerifyTokenRequest(_message.Message):
    __slots__ = ("token", "accepts_bound", "audience")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_BOUND_FIELD_NUMBER: _ClassVar[int]
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    token: str
    accepts_bound: bool
    audience: str
    def __init__(self, token: _Optional[str] = ..., accepts_bound: bool = ..., audience: _Optional[str] = ...) -> None: ...

class VerifyTokenResponse(_message.Message):
    __slots__ = ("active", "reason", "principal", "expires_in_ms")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_MS_FIELD_NUMBER: _ClassVar[int]
    active: bool
    reason: InactiveReason
    principal: _principal_pb2.Principal
    expires_in_ms: int
    def __init__(self, active: bool = ..., reason: _Optional[_Union[InactiveReason, str]] = ..., principal: _Optional[_Union[_principal_pb2.Principal, _Mapping]] = ..., expires_in_ms: _Optional[int] = ...) -> None: ...

class WatchRevocationsRequest(_message.Message):
    __slots__ = ("after_sequence", "tip")
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIP_FIELD_NUMBER: _ClassVar[int]
    after_sequence: int
    tip: str
    def __init__(self, after_sequence: _Optional[int] = ..., tip: _Optional[str] = ...) -> None: ...

class WatchRevocationsResponse(_message.Message):
    __slots__ = ("revocations", "sequence", "caught_up", "tip", "elapsed_ms", "read_at", "keep_s", "rules", "part")
    REVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    TIP_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    READ_AT_FIELD_NUMBER: _ClassVar[int]
    KEEP_S_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    revocations: _containers.RepeatedCompositeFieldContainer[Revocation]
    sequence: int
    caught_up: bool
    tip: str
    elapsed_ms: int
    read_at: _timestamp_pb2.Timestamp
    keep_s: int
    rules: TokenRules
    part: PartState
    def __init__(self, revocations: _Optional[_Iterable[_Union[Revocation, _Mapping]]] = ..., sequence: _Optional[int] = ..., caught_up: bool = ..., tip: _Optional[str] = ..., elapsed_ms: _Optional[int] = ..., read_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keep_s: _Optional[int] = ..., rules: _Optional[_Union[TokenRules, _Mapping]] = ..., part: _Optional[_Union[PartState, _Mapping]] = ...) -> None: ...

class PartState(_message.Message):
    __slots__ = ("number", "caught_up", "elapsed_ms", "read_at", "slots")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    READ_AT_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    caught_up: bool
    elapsed_ms: int
    read_at: _timestamp_pb2.Timestamp
    slots: bytes
    def __init__(self, number: _Optional[int] = ..., caught_up: bool = ..., elapsed_ms: _Optional[int] = ..., read_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., slots: _Optional[bytes] = ...) -> None: ...

class TokenRules(_message.Message):
    __slots__ = ("issuer", "keys")
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    issuer: str
    keys: _containers.RepeatedCompositeFieldContainer[VerificationKey]
    def __init__(self, issuer: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[VerificationKey, _Mapping]]] = ...) -> None: ...

class VerificationKey(_message.Message):
    __slots__ = ("key_id", "algorithm", "public_key")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    algorithm: str
    public_key: bytes
    def __init__(self, key_id: _Optional[str] = ..., algorithm: _Optional[str] = ..., public_key: _Optional[bytes] = ...) -> None: ...

class Revocation(_message.Message):
    __slots__ = ("sequence", "session_id", "key_id", "expires_at")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    session_id: str
    key_id: str
    expires_at: _timestamp_pb2.Timestamp
    def __init__(self, sequence: _Optional[int] = ..., session_id: _Optional[str] = ..., key_id: _Optional[str] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetJwksRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetJwksResponse(_message.Message):
    __slots__ = ("jwks_json", "max_age_s", "issuer")
    JWKS_JSON_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_S_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    jwks_json: str
    max_age_s: int
    issuer: str
    def __init__(self, jwks_json: _Optional[str] = ..., max_age_s: _Optional[int] = ..., issuer: _Optional[str] = ...) -> None: ...
