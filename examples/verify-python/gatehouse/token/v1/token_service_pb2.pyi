import datetime

from gatehouse.token.v1 import principal_pb2 as _principal_pb2
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
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class VerifyTokenResponse(_message.Message):
    __slots__ = ("active", "reason", "principal")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    active: bool
    reason: InactiveReason
    principal: _principal_pb2.Principal
    def __init__(self, active: _Optional[bool] = ..., reason: _Optional[_Union[InactiveReason, str]] = ..., principal: _Optional[_Union[_principal_pb2.Principal, _Mapping]] = ...) -> None: ...

class WatchRevocationsRequest(_message.Message):
    __slots__ = ("after_sequence",)
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    after_sequence: int
    def __init__(self, after_sequence: _Optional[int] = ...) -> None: ...

class WatchRevocationsResponse(_message.Message):
    __slots__ = ("revocations", "sequence", "caught_up")
    REVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    revocations: _containers.RepeatedCompositeFieldContainer[Revocation]
    sequence: int
    caught_up: bool
    def __init__(self, revocations: _Optional[_Iterable[_Union[Revocation, _Mapping]]] = ..., sequence: _Optional[int] = ..., caught_up: _Optional[bool] = ...) -> None: ...

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
    __slots__ = ("jwks_json", "max_age_s")
    JWKS_JSON_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_S_FIELD_NUMBER: _ClassVar[int]
    jwks_json: str
    max_age_s: int
    def __init__(self, jwks_json: _Optional[str] = ..., max_age_s: _Optional[int] = ...) -> None: ...
