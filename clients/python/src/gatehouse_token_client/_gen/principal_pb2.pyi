import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PrincipalKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRINCIPAL_KIND_UNSPECIFIED: _ClassVar[PrincipalKind]
    PRINCIPAL_KIND_USER: _ClassVar[PrincipalKind]
    PRINCIPAL_KIND_CLIENT: _ClassVar[PrincipalKind]
PRINCIPAL_KIND_UNSPECIFIED: PrincipalKind
PRINCIPAL_KIND_USER: PrincipalKind
PRINCIPAL_KIND_CLIENT: PrincipalKind

class Confirmation(_message.Message):
    __slots__ = ("jkt", "x5t_s256")
    JKT_FIELD_NUMBER: _ClassVar[int]
    X5T_S256_FIELD_NUMBER: _ClassVar[int]
    jkt: str
    x5t_s256: str
    def __init__(self, jkt: _Optional[str] = ..., x5t_s256: _Optional[str] = ...) -> None: ...

class Principal(_message.Message):
    __slots__ = ("user_id", "session_id", "role", "token_id", "key_id", "amr", "auth_time", "issued_at", "expires_at", "acr", "kind", "client_id", "scopes", "confirmation", "audience", "origin_token_id", "origin_key_id")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    AMR_FIELD_NUMBER: _ClassVar[int]
    AUTH_TIME_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    ACR_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    CONFIRMATION_FIELD_NUMBER: _ClassVar[int]
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    session_id: str
    role: str
    token_id: str
    key_id: str
    amr: _containers.RepeatedScalarFieldContainer[str]
    auth_time: _timestamp_pb2.Timestamp
    issued_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    acr: str
    kind: PrincipalKind
    client_id: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    confirmation: Confirmation
    audience: str
    origin_token_id: str
    origin_key_id: str
    def __init__(self, user_id: _Optional[str] = ..., session_id: _Optional[str] = ..., role: _Optional[str] = ..., token_id: _Optional[str] = ..., key_id: _Optional[str] = ..., amr: _Optional[_Iterable[str]] = ..., auth_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., issued_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., acr: _Optional[str] = ..., kind: _Optional[_Union[PrincipalKind, str]] = ..., client_id: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., confirmation: _Optional[_Union[Confirmation, _Mapping]] = ..., audience: _Optional[str] = ..., origin_token_id: _Optional[str] = ..., origin_key_id: _Optional[str] = ...) -> None: ...

class TokenPair(_message.Message):
    __slots__ = ("access_token", "refresh_token", "expires_in_s", "session_id", "user_id", "confirmation", "refresh_expires_in_s", "device_challenge")
    ACCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_S_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIRMATION_FIELD_NUMBER: _ClassVar[int]
    REFRESH_EXPIRES_IN_S_FIELD_NUMBER: _ClassVar[int]
    DEVICE_CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    access_token: str
    refresh_token: str
    expires_in_s: int
    session_id: str
    user_id: str
    confirmation: Confirmation
    refresh_expires_in_s: int
    device_challenge: str
    def __init__(self, access_token: _Optional[str] = ..., refresh_token: _Optional[str] = ..., expires_in_s: _Optional[int] = ..., session_id: _Optional[str] = ..., user_id: _Optional[str] = ..., confirmation: _Optional[_Union[Confirmation, _Mapping]] = ..., refresh_expires_in_s: _Optional[int] = ..., device_challenge: _Optional[str] = ...) -> None: ...
