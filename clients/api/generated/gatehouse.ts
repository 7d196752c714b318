// @ts-nocheck
/**
 * Gatehouse
 * 1
 * DO NOT MODIFY - This file has been generated using oazapfts.
 * See https://www.npmjs.com/package/oazapfts
 */
import * as Oazapfts from "@oazapfts/runtime";
import * as QS from "@oazapfts/runtime/query";
export const defaults: Oazapfts.Defaults<Oazapfts.CustomHeaders> = {
    headers: {},
    baseUrl: "/"
};
const oazapfts = Oazapfts.runtime(defaults);
export const servers = {
    server1: "/",
    theSameByVersion: "/v1"
};
export type ErrorCode = "validation_failed" | "bad_request" | "password_too_short" | "password_too_common" | "password_contains_email" | "password_unchanged" | "verification_token_invalid" | "reset_token_invalid" | "oauth_state_invalid" | "oauth_code_invalid" | "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required" | "invalid_credentials" | "mfa_code_invalid" | "mfa_token_invalid" | "step_up_token_invalid" | "password_change_token_invalid" | "passkey_invalid" | "invalid_client" | "invalid_scope" | "unauthorized_client" | "invalid_dpop_proof" | "use_dpop_nonce" | "unsupported_grant_type" | "unsupported_token_type" | "refresh_token_invalid" | "refresh_token_reused" | "forbidden" | "origin_not_allowed" | "role_not_defined" | "user_required" | "email_not_verified" | "oauth_failed" | "oauth_denied" | "reauthentication_required" | "mfa_enrollment_required" | "approval_required" | "approval_mismatch" | "approval_expired" | "approval_used" | "provider_not_found" | "not_found" | "method_not_allowed" | "email_already_registered" | "mfa_already_enabled" | "mfa_required" | "link_required" | "already_linked" | "last_credential" | "last_factor" | "last_admin" | "conflict" | "request_timeout" | "payload_too_large" | "uri_too_long" | "unsupported_media_type" | "misdirected_request" | "headers_too_large" | "too_many_requests" | "not_implemented" | "http_version_not_supported" | "internal_error" | "upstream_unavailable" | "service_unavailable" | "audit_unavailable" | "busy" | "upstream_timeout";
export type FieldProblem = {
    /** Dotted path in the request. */
    field: string;
    /** Stable: `required`, `invalid_format`, `unknown_key`, … */
    code: string;
    /** For people; not part of the API. */
    message: string;
};
export type StepUpDemand = {
    acr: number;
    maxAgeSeconds?: number;
    /** Those that may reach it. */
    methods: string[];
};
export type Failure = {
    success: boolean;
    /** For people; not part of the API. */
    message: string;
    error: {
        code: ErrorCode;
        /** Also in `X-Request-Id`. */
        requestId: string;
        details?: FieldProblem[] | StepUpDemand;
    };
};
export type User = {
    id: string;
    email: string;
    firstName: string;
    /** Empty for a person with one name. */
    lastName: string;
    role: string;
    emailVerified: boolean;
    mfaEnabled: boolean;
    createdAt: string;
};
export type CompletedLogin = {
    /** A JWT; see RFC 9068. */
    accessToken: string;
    /** A JWT. Absent in a browser session, which has it in a cookie. */
    refreshToken?: string;
    /** How to send the access token. `DPoP`: with a proof of the key that both tokens are bound to. */
    tokenType: "Bearer" | "DPoP";
    /** Of the access token, in seconds. */
    expiresIn: number;
    user: User;
};
export type PasskeyRequestOptions = {
    /** 256 bits, good for five minutes and one answer. */
    challenge: string;
    rpId: string;
    allowCredentials: {
        id: string;
        "type": "public-key";
        transports: string[];
    }[];
    /** In milliseconds. */
    timeout: number;
    userVerification: "required";
};
export type MfaRequired = {
    requireMfa: true;
    /** Opaque; good for five minutes, five tries and one success. Never an access token. */
    tempToken: string;
    /** What the user can prove: `passkey`, `totp`, `recovery_code`. */
    methods: string[];
    passkey?: PasskeyRequestOptions;
    /** For how many days `trustDevice: true` spares the code. Absent: not at all. */
    trustDeviceDays?: number;
};
export type PasswordChangeRequired = {
    requirePasswordChange: true;
    /** Opaque; good for five minutes, five tries and one success. Never an access token. */
    tempToken: string;
};
export type MfaEnrollmentRequired = {
    requireMfaEnrollment: true;
    /** Opaque; good for 15 minutes, ten tries and one success. Never an access token. */
    tempToken: string;
    methods: string[];
};
export type Tokens = {
    /** A JWT; see RFC 9068. */
    accessToken: string;
    /** A JWT. Absent in a browser session, which has it in a cookie. */
    refreshToken?: string;
    /** How to send the access token. `DPoP`: with a proof of the key that both tokens are bound to. */
    tokenType: "Bearer" | "DPoP";
    /** Of the access token, in seconds. */
    expiresIn: number;
};
export type Session = {
    id: string;
    /** Whether it is the one that asks. */
    current: boolean;
    createdAt: string;
    lastUsedAt: string;
    expiresAt: string;
    ip: string;
    userAgent: string;
    /** How its user was authenticated (RFC 8176). */
    amr: string[];
};
export type TrustedDevice = {
    id: string;
    createdAt: string;
    lastUsedAt: string;
    expiresAt: string;
    ip: string;
    userAgent: string;
};
export type EnrolledLogin = {
    /** A JWT; see RFC 9068. */
    accessToken: string;
    /** A JWT. Absent in a browser session, which has it in a cookie. */
    refreshToken?: string;
    /** How to send the access token. `DPoP`: with a proof of the key that both tokens are bound to. */
    tokenType: "Bearer" | "DPoP";
    /** Of the access token, in seconds. */
    expiresIn: number;
    user: User;
    /** Ten, each good once, and shown only here. None if the user had a second factor before. */
    recoveryCodes: string[];
};
export type PasskeyCreationOptions = {
    /** 256 bits, good for five minutes and one answer. */
    challenge: string;
    rp: {
        id: string;
        name: string;
    };
    user: {
        /** The user's id: 16 bytes. */
        id: string;
        name: string;
        displayName: string;
    };
    pubKeyCredParams: {
        /** RFC 9053. */
        alg: number;
        "type": "public-key";
    }[];
    /** In milliseconds. */
    timeout: number;
    attestation: "none";
    excludeCredentials: {
        id: string;
        "type": "public-key";
        transports: string[];
    }[];
    authenticatorSelection: {
        residentKey: "required";
        requireResidentKey: true;
        userVerification: "required";
    };
    extensions: {
        credProps: boolean;
    };
    hints: string[];
};
export type Passkey = {
    id: string;
    name: string;
    createdAt: string;
    lastUsedAt: string | null;
    /** Whether it was backed up when it was used last. */
    backedUp: boolean;
    transports: string[];
};
export type AddedPasskey = {
    passkey: Passkey;
    /** Ten, each good once, and shown only here. None if the user had a second factor before. */
    recoveryCodes?: string[];
};
export type EnrolledPasskeyLogin = {
    passkey: Passkey;
    /** A JWT; see RFC 9068. */
    accessToken: string;
    /** A JWT. Absent in a browser session, which has it in a cookie. */
    refreshToken?: string;
    /** How to send the access token. `DPoP`: with a proof of the key that both tokens are bound to. */
    tokenType: "Bearer" | "DPoP";
    /** Of the access token, in seconds. */
    expiresIn: number;
    user: User;
    /** Ten, each good once, and shown only here. None if the user had a second factor before. */
    recoveryCodes: string[];
};
export type PendingApproval = {
    id: string;
    /** What is approved: the value of each field of the body, by its JSON pointer. */
    details: {
        [key: string]: unknown;
    };
    method: string;
    /** Path and query of the call. */
    route: string;
    /** The session that has asked. It alone can give the approval. */
    sessionId: string;
    /** Whether it is the one that looks. */
    current: boolean;
    createdAt: string;
    expiresAt: string;
};
export type Approval = {
    id: string;
    /** What is approved: the value of each field of the body, by its JSON pointer. */
    details: {
        [key: string]: unknown;
    };
    method: string;
    /** Path and query of the call. */
    route: string;
    /** The session that has asked. It alone can give the approval. */
    sessionId: string;
    /** Whether it is the one that looks. */
    current: boolean;
    createdAt: string;
    expiresAt: string;
    state: "pending" | "given" | "used" | "refused" | "expired";
    /** What can give it now, here. Empty: nothing. */
    methods: string[];
    passkey?: PasskeyRequestOptions;
};
export type IdentityProvider = {
    name: string;
    displayName: string;
};
export type LinkedIdentity = {
    provider: string;
    /** As the provider told it. */
    email?: string;
    linkedAt: string;
};
export type AuditEntry = {
    id: string;
    /** A call is an intent and its outcome; an event stands alone. */
    kind: "intent" | "outcome" | "event";
    /** Both entries of a call have it. */
    callId: string;
    occurredAt: string;
    /** Who acted: from a verified token, or the address that an anonymous caller claimed. */
    actor: {
        /** A user's id, or `client:`, `operator:` or `auditor:` and a name. */
        userId?: string;
        role?: string;
        sessionId?: string;
        claimedEmail?: string;
    };
    clientIp: string;
    userAgent: string;
    method: string;
    route: string;
    resource: string;
    action: string;
    requestId: string;
    traceId: string;
    outcome?: "success" | "failure" | "unknown";
    errorCode?: string;
    httpStatus?: number;
    /** Microseconds. */
    latencyUs?: number;
    reason?: string;
    /** Its place in the log, from 1; null while it has none yet. */
    sequence: number | null;
    /** By the log's clock. */
    receivedAt: string;
    /** The service that sent it. */
    producer: string;
};
export type SigningKey = {
    /** `kid` of the tokens that it signs. */
    id: string;
    algorithm: string;
    /** `unknown`: a state of a later version. */
    state: "next" | "active" | "retired" | "revoked" | "unknown";
    createdAt: string;
    activatedAt: string | null;
    retiredAt: string | null;
};
export type Role = {
    name: string;
    permissions: string[];
    /** Whether the caller may give it to a user. */
    assignable: boolean;
    /** Whether the caller may act on users who have it. */
    actable: boolean;
};
export type ManagedUser = {
    id: string;
    email: string;
    firstName: string;
    /** Empty for a person with one name. */
    lastName: string;
    role: string;
    emailVerified: boolean;
    mfaEnabled: boolean;
    createdAt: string;
    status: "active" | "disabled";
    mustChangePassword: boolean;
};
export type UserDetails = {
    /** Logins from unknown devices and networks are refused after failures, whatever the password. */
    locked: boolean;
    /** Null if not locked, and if only a success, a new password or an unlock opens it. */
    lockedUntil: string | null;
    totpSince: string | null;
    passkeys: {
        id: string;
        name: string;
        createdAt: string;
        lastUsedAt: string | null;
    }[];
    recoveryCodesLeft: number;
    providers: {
        provider: string;
        linkedAt: string;
    }[];
    /** How many. */
    trustedDevices: number;
    /** Of the last 30 days, newest first, at most 50; never their content. */
    mails: {
        template: string;
        createdAt: string;
        /** `sent`: the mail server has taken it. `withheld`: it was asked for when the limit of mails was reached. `unknown`: a state of a later version. */
        state: "waiting" | "sent" | "given_up" | "withheld" | "unknown";
        endedAt: string | null;
        attempts: number;
    }[];
};
export type Client = {
    id: string;
    name: string;
    ownerId: string | null;
    permissions: string[];
    status: "active" | "disabled";
    createdAt: string;
    changedAt: string;
};
export type ClientCredential = {
    id: string;
    kind: "public_key" | "secret" | "api_key";
    name: string;
    keyId: string | null;
    createdAt: string;
    lastUsedAt: string | null;
};
export type ClientWithCredentials = {
    id: string;
    name: string;
    ownerId: string | null;
    permissions: string[];
    status: "active" | "disabled";
    createdAt: string;
    changedAt: string;
    credentials: ClientCredential[];
};
export type AuthorizationServer = {
    issuer: string;
    token_endpoint: string;
    revocation_endpoint: string;
    introspection_endpoint: string;
    jwks_uri: string;
    service_documentation: string;
    response_types_supported: string[];
    grant_types_supported: string[];
    token_endpoint_auth_methods_supported: string[];
    token_endpoint_auth_signing_alg_values_supported: string[];
    revocation_endpoint_auth_methods_supported: string[];
    revocation_endpoint_auth_signing_alg_values_supported: string[];
    introspection_endpoint_auth_methods_supported: string[];
    dpop_signing_alg_values_supported: string[];
    tls_client_certificate_bound_access_tokens: boolean;
};
export type ProtectedResource = {
    resource: string;
    authorization_servers: string[];
    jwks_uri: string;
    bearer_methods_supported: string[];
    dpop_signing_alg_values_supported: string[];
    tls_client_certificate_bound_access_tokens: boolean;
    dpop_bound_access_tokens_required: boolean;
    resource_documentation: string;
};
export type JwkSet = {
    keys: {
        kty: string;
        kid: string;
        [key: string]: unknown;
    }[];
    [key: string]: unknown;
};
export type ClientToken = {
    /** A JWT; see RFC 9068. */
    access_token: string;
    token_type: "Bearer" | "DPoP";
    /** Seconds. */
    expires_in: number;
    scope: string;
};
export type Introspection = {
    active: boolean;
    iss?: string;
    sub?: string;
    client_id?: string;
    scope?: string;
    sid?: string;
    /** Seconds since 1970. */
    exp?: number;
    /** Seconds since 1970. */
    iat?: number;
    jti?: string;
    role?: string;
    amr?: string[];
    acr?: string;
    /** Seconds since 1970. */
    auth_time?: number;
    token_type?: "Bearer" | "DPoP";
    /** The key that the token is bound to (RFC 9449, section 6.2; RFC 8705, section 3.2). */
    cnf?: {
        jkt?: string;
        "x5t#S256"?: string;
    };
};
/**
 * The API as an OpenAPI 3.1 document
 */
export function getOpenApiDocument(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            openapi: string;
            [key: string]: unknown;
        };
    } | {
        status: 304;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/openapi.json", {
        ...opts
    });
}
/**
 * The API as a page for people
 */
export function getDocumentationPage(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: string;
    } | {
        status: 304;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/docs", {
        ...opts
    });
}
/**
 * Register
 */
export function register(body: {
    email: string;
    password: string;
    firstName: string;
    /** Empty for a person with one name. */
    lastName?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 201;
        data: {
            success: true;
            data: {
                user: User;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "password_too_short" | "password_too_common" | "password_contains_email";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "email_already_registered";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/register", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Log in
 */
export function logIn(body: {
    email: string;
    password: string;
}, { gatehouseDevice, gatehouseClient }: {
    gatehouseDevice?: string;
    gatehouseClient?: "browser";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: CompletedLogin | MfaRequired | PasswordChangeRequired | MfaEnrollmentRequired;
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "invalid_credentials";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "origin_not_allowed" | "role_not_defined" | "email_not_verified";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/login", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Device": gatehouseDevice,
            "Gatehouse-Client": gatehouseClient
        })
    }));
}
/**
 * Refresh the tokens
 */
export function refresh(body?: {
    refreshToken: string;
}, { gatehouseClient }: {
    gatehouseClient?: "browser";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: Tokens;
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "refresh_token_invalid" | "refresh_token_reused";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "origin_not_allowed";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/refresh", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Client": gatehouseClient
        })
    }));
}
/**
 * Who am I?
 */
export function getAccount(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                user: User;
                /** What the caller's role holds now. A change of the access file changes them. */
                permissions: string[];
                recoveryCodesLeft?: number;
                /** Whether an authenticator app is set up. */
                totpEnabled: boolean;
                /** False for an account that has only logins at providers, or passkeys. */
                hasPassword: boolean;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/me", {
        ...opts
    });
}
/**
 * Change one's names
 */
export function updateAccount(body: {
    firstName?: string;
    /** Empty for a person with one name. */
    lastName?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                user: User;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/me", oazapfts.json({
        ...opts,
        method: "PATCH",
        body
    }));
}
/**
 * Delete one's account
 */
export function deleteAccount(body: {
    password: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required" | "invalid_credentials";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "last_admin";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/me", oazapfts.json({
        ...opts,
        method: "DELETE",
        body
    }));
}
/**
 * Log out
 */
export function logOut(body?: {
    scope?: "session" | "others" | "all";
    /** In place of an access token that has expired. */
    refreshToken?: string;
}, { gatehouseClient }: {
    gatehouseClient?: "browser";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "refresh_token_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "origin_not_allowed" | "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "conflict";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/logout", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Client": gatehouseClient
        })
    }));
}
/**
 * List one's sessions and trusted devices
 */
export function listSessions(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                sessions: Session[];
                trustedDevices: TrustedDevice[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/sessions", {
        ...opts
    });
}
/**
 * End a session
 */
export function endSession(id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/sessions/${encodeURIComponent(id)}`, {
        ...opts,
        method: "DELETE"
    });
}
/**
 * End the trust in a device
 */
export function removeTrustedDevice(id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/trusted-devices/${encodeURIComponent(id)}`, {
        ...opts,
        method: "DELETE"
    });
}
/**
 * Log in: the second factor
 */
export function completeMfaLogin(body: {
    tempToken: string;
    trustDevice?: boolean;
    code: string;
} | {
    tempToken: string;
    trustDevice?: boolean;
    /** What else `PublicKeyCredential.toJSON()` gives is ignored. */
    passkey: {
        /** Base64url, as everything binary. */
        id: string;
        "type": "public-key";
        response: {
            clientDataJSON: string;
            authenticatorData: string;
            signature: string;
            userHandle?: string | null;
        };
    };
}, { gatehouseDevice, gatehouseClient }: {
    gatehouseDevice?: string;
    gatehouseClient?: "browser";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: CompletedLogin | PasswordChangeRequired;
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "mfa_code_invalid" | "mfa_token_invalid" | "passkey_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "origin_not_allowed" | "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/mfa/verify", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Device": gatehouseDevice,
            "Gatehouse-Client": gatehouseClient
        })
    }));
}
/**
 * Begin to set up a second factor
 */
export function setUpMfa(body: {
    password: string;
} | {
    tempToken: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** Base32. */
                secret: string;
                otpauthUrl: string;
                /** An SVG as a data URL. */
                qrCode: string;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required" | "invalid_credentials" | "mfa_token_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined" | "email_not_verified";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "mfa_already_enabled";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/mfa/setup", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Turn the second factor on
 */
export function enableMfa(body: {
    code: string;
} | {
    tempToken: string;
    code: string;
}, { gatehouseDevice, gatehouseClient }: {
    gatehouseDevice?: string;
    gatehouseClient?: "browser";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** Ten, each good once, and shown only here. None if the user had a second factor before. */
                recoveryCodes: string[];
            } | EnrolledLogin;
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required" | "mfa_code_invalid" | "mfa_token_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "origin_not_allowed" | "role_not_defined" | "email_not_verified";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "mfa_already_enabled";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/mfa/enable", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Device": gatehouseDevice,
            "Gatehouse-Client": gatehouseClient
        })
    }));
}
/**
 * Turn the second factor off
 */
export function disableMfa(body: {
    password: string;
    code: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "invalid_credentials" | "mfa_code_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "mfa_required";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/mfa/disable", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Get new recovery codes
 */
export function renewRecoveryCodes(body: {
    code: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** Ten, each good once, and shown only here. None if the user had a second factor before. */
                recoveryCodes: string[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "mfa_code_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/mfa/recovery-codes", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Begin to add a passkey
 */
export function beginPasskey(body?: {
    tempToken?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: PasskeyCreationOptions;
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required" | "mfa_token_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined" | "user_required" | "email_not_verified";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "conflict";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/passkeys/options", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Add the passkey that the browser has made
 */
export function addPasskey(body: {
    tempToken?: string;
    /** What else `PublicKeyCredential.toJSON()` gives is ignored. */
    response: {
        /** Base64url, as everything binary. */
        id: string;
        "type": "public-key";
        response: {
            clientDataJSON: string;
            attestationObject: string;
            transports?: string[];
        };
    };
    /** For its owner, at most 64 characters. */
    name: string;
}, { gatehouseDevice, gatehouseClient }: {
    gatehouseDevice?: string;
    gatehouseClient?: "browser";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 201;
        data: {
            success: true;
            data: AddedPasskey | EnrolledPasskeyLogin;
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required" | "mfa_token_invalid" | "passkey_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "origin_not_allowed" | "role_not_defined" | "email_not_verified";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "conflict";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/passkeys", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Device": gatehouseDevice,
            "Gatehouse-Client": gatehouseClient
        })
    }));
}
/**
 * List the passkeys
 */
export function listPasskeys(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                passkeys: Passkey[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/passkeys", {
        ...opts
    });
}
/**
 * Give a passkey another name
 */
export function renamePasskey(id: string, body: {
    /** For its owner, at most 64 characters. */
    name: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                passkey: Passkey;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/passkeys/${encodeURIComponent(id)}`, oazapfts.json({
        ...opts,
        method: "PATCH",
        body
    }));
}
/**
 * Remove a passkey
 */
export function deletePasskey(id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "mfa_required" | "last_factor";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/passkeys/${encodeURIComponent(id)}`, {
        ...opts,
        method: "DELETE"
    });
}
/**
 * Begin a login with a passkey
 */
export function beginPasskeyLogin(body: {}, { gatehouseDevice }: {
    gatehouseDevice?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** Send it with the answer. */
                challengeToken: string;
                options: PasskeyRequestOptions;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/passkeys/login/options", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Device": gatehouseDevice
        })
    }));
}
/**
 * Log in with a passkey
 */
export function logInWithPasskey(body: {
    challengeToken: string;
    /** What else `PublicKeyCredential.toJSON()` gives is ignored. */
    response: {
        /** Base64url, as everything binary. */
        id: string;
        "type": "public-key";
        response: {
            clientDataJSON: string;
            authenticatorData: string;
            signature: string;
            userHandle?: string | null;
        };
    };
}, { gatehouseDevice, gatehouseClient }: {
    gatehouseDevice?: string;
    gatehouseClient?: "browser";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: CompletedLogin;
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "passkey_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "origin_not_allowed" | "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/passkeys/login", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Device": gatehouseDevice,
            "Gatehouse-Client": gatehouseClient
        })
    }));
}
/**
 * Approve a transaction
 */
export function verifyApproval(body: {
    /** From `approval_required`. */
    token: string;
    code: string;
} | {
    /** From `approval_required`. */
    token: string;
    /** What else `PublicKeyCredential.toJSON()` gives is ignored. */
    passkey: {
        /** Base64url, as everything binary. */
        id: string;
        "type": "public-key";
        response: {
            clientDataJSON: string;
            authenticatorData: string;
            signature: string;
            userHandle?: string | null;
        };
    };
} | {
    /** From `approval_required`, in place of the token. */
    approvalId: string;
    code: string;
} | {
    /** From `approval_required`, in place of the token. */
    approvalId: string;
    /** What else `PublicKeyCredential.toJSON()` gives is ignored. */
    passkey: {
        /** Base64url, as everything binary. */
        id: string;
        "type": "public-key";
        response: {
            clientDataJSON: string;
            authenticatorData: string;
            signature: string;
            userHandle?: string | null;
        };
    };
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                approvalId: string;
                method: string;
                /** In seconds. Until then, repeat the call with `Gatehouse-Approval: <token>`. */
                expiresIn: number;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "mfa_code_invalid" | "passkey_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined" | "approval_mismatch" | "approval_expired" | "approval_used";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/approvals/verify", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * List the approvals that wait for you
 */
export function listApprovals(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                approvals: PendingApproval[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/me/approvals", {
        ...opts
    });
}
/**
 * Look at an approval
 */
export function getApproval(id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                approval: Approval;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/me/approvals/${encodeURIComponent(id)}`, {
        ...opts
    });
}
/**
 * Refuse an approval
 */
export function refuseApproval(id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined" | "approval_expired" | "approval_used";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/me/approvals/${encodeURIComponent(id)}/refuse`, {
        ...opts,
        method: "POST"
    });
}
/**
 * Begin a step-up
 */
export function beginStepUp(body?: {
    acr?: number;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** Opaque; good in this session for five minutes, five tries and one success. */
                stepUpToken: string;
                /** Of this user, those that reach the level: `passkey`, `totp`, `recovery_code`, `password`. */
                methods: string[];
                passkey?: PasskeyRequestOptions;
                /** Of the step-up token, in seconds. */
                expiresIn: number;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined" | "mfa_enrollment_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/step-up", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Step up: the proof
 */
export function completeStepUp(body: {
    stepUpToken: string;
    code: string;
} | {
    stepUpToken: string;
    password: string;
} | {
    stepUpToken: string;
    /** What else `PublicKeyCredential.toJSON()` gives is ignored. */
    passkey: {
        /** Base64url, as everything binary. */
        id: string;
        "type": "public-key";
        response: {
            clientDataJSON: string;
            authenticatorData: string;
            signature: string;
            userHandle?: string | null;
        };
    };
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** A JWT; see RFC 9068. */
                accessToken: string;
                /** How to send the access token. `DPoP`: with a proof of the key that both tokens are bound to. */
                tokenType: "Bearer" | "DPoP";
                /** Of the access token, in seconds. */
                expiresIn: number;
                /** The session's level of assurance now. */
                acr: number;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "invalid_credentials" | "mfa_code_invalid" | "step_up_token_invalid" | "passkey_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/step-up/verify", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Ask whether a page may send a person to an address
 */
export function findReturn(to: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                returnTo: {
                    /** Of the application. */
                    name: string;
                    url: string;
                } | null;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/return-to${QS.query(QS.explode({
        to
    }))}`, {
        ...opts
    });
}
/**
 * Ask for another mail that proves the address
 */
export function resendVerification(body: {
    email: string;
}, { gatehouseDevice }: {
    gatehouseDevice?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/resend-verification", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Device": gatehouseDevice
        })
    }));
}
/**
 * Ask for a mail with a link to a new password
 */
export function forgotPassword(body: {
    email: string;
}, { gatehouseDevice }: {
    gatehouseDevice?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/forgot-password", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Device": gatehouseDevice
        })
    }));
}
/**
 * Change one's password
 */
export function changePassword(body: {
    currentPassword: string;
    newPassword: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "password_too_short" | "password_too_common" | "password_contains_email";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required" | "invalid_credentials";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/change-password", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Log in: the new password
 */
export function changePasswordAtLogin(body: {
    tempToken: string;
    newPassword: string;
}, { gatehouseDevice, gatehouseClient }: {
    gatehouseDevice?: string;
    gatehouseClient?: "browser";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: CompletedLogin | MfaEnrollmentRequired;
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "password_too_short" | "password_too_common" | "password_contains_email" | "password_unchanged" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "password_change_token_invalid";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "origin_not_allowed" | "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/login/change-password", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Device": gatehouseDevice,
            "Gatehouse-Client": gatehouseClient
        })
    }));
}
/**
 * Ask for another address
 */
export function changeEmail(body: {
    newEmail: string;
    password: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required" | "invalid_credentials";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/change-email", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * List the identity providers
 */
export function listProviders(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                providers: IdentityProvider[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/providers", {
        ...opts
    });
}
/**
 * Page: log in at an identity provider
 */
export function beginOAuthLogin(provider: string, { returnTo, codeChallenge }: {
    returnTo?: string;
    codeChallenge?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 302;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "provider_not_found" | "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/${encodeURIComponent(provider)}${QS.query(QS.explode({
        returnTo,
        codeChallenge
    }))}`, {
        ...opts
    });
}
/**
 * Page: back from an identity provider
 */
export function completeOAuthLogin(provider: string, state: string, gatehouseOauth: string, { code, iss, error }: {
    code?: string;
    iss?: string;
    error?: string;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 302;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "oauth_state_invalid";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "provider_not_found" | "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/${encodeURIComponent(provider)}/callback${QS.query(QS.explode({
        code,
        state,
        iss,
        error
    }))}`, {
        ...opts
    });
}
/**
 * Form: back from an identity provider
 */
export function receiveOAuthForm(provider: string, body: {
    code?: string;
    state: string;
    iss?: string;
    error?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 303;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/${encodeURIComponent(provider)}/callback`, oazapfts.form({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Turn the one-time code of a login into tokens
 */
export function exchangeOAuthCode(body: {
    code: string;
    /** Of the `codeChallenge`. */
    codeVerifier: string;
}, { gatehouseDevice, gatehouseClient }: {
    gatehouseDevice?: string;
    gatehouseClient?: "browser";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: CompletedLogin | MfaRequired | MfaEnrollmentRequired;
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "oauth_code_invalid" | "invalid_dpop_proof" | "use_dpop_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "origin_not_allowed" | "role_not_defined" | "email_not_verified";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/oauth/exchange", oazapfts.json({
        ...opts,
        method: "POST",
        body,
        headers: oazapfts.mergeHeaders(opts?.headers, {
            "Gatehouse-Device": gatehouseDevice,
            "Gatehouse-Client": gatehouseClient
        })
    }));
}
/**
 * List the accounts at identity providers that one can log in with
 */
export function listIdentities(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                identities: LinkedIdentity[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/me/identities", {
        ...opts
    });
}
/**
 * Link an account at an identity provider
 */
export function linkIdentity(provider: string, body: {
    password?: string;
    /** Where the browser goes at the end: exactly one of those that the operator allows. */
    returnTo?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                url: string;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required" | "invalid_credentials";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined" | "email_not_verified" | "reauthentication_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "provider_not_found" | "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "already_linked";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/me/identities/${encodeURIComponent(provider)}`, oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Take an account at an identity provider away
 */
export function unlinkIdentity(provider: string, body?: {
    password?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required" | "invalid_credentials";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "role_not_defined" | "reauthentication_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "last_credential";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/me/identities/${encodeURIComponent(provider)}`, oazapfts.json({
        ...opts,
        method: "DELETE",
        body
    }));
}
/**
 * Search the audit log
 */
export function searchAuditLog({ actor, action, resource, outcome, requestId, $from, to, cursor, limit }: {
    actor?: string;
    action?: string;
    resource?: string;
    outcome?: "success" | "failure" | "unknown";
    requestId?: string;
    $from?: string;
    to?: string;
    cursor?: string;
    limit?: number;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                entries: AuditEntry[];
                /** For the next page; null on the last one. */
                nextCursor: string | null;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/audit${QS.query(QS.explode({
        actor,
        action,
        resource,
        outcome,
        requestId,
        "from": $from,
        to,
        cursor,
        limit
    }))}`, {
        ...opts
    });
}
/**
 * Read one entry, with the proof that it is in the log
 */
export function getAuditEntry(id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                entry: AuditEntry;
                /** Null while no checkpoint covers the entry: about a second. */
                proof: {
                    /** Canonical JSON whose hash is the leaf's. */
                    leafData: string;
                    /** Base64. */
                    leafHash: string;
                    /** From the leaf up (RFC 9162, section 2.1). */
                    inclusionProof: string[];
                    /** A signed note (C2SP tlog-checkpoint). */
                    checkpoint: string;
                } | null;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/audit/${encodeURIComponent(id)}`, {
        ...opts
    });
}
/**
 * Read the latest signed checkpoint
 */
export function getAuditCheckpoint(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** A signed note (C2SP tlog-checkpoint). */
                checkpoint: string;
                verifierKey: string;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/admin/audit/checkpoint", {
        ...opts
    });
}
/**
 * Prove that an entry is in the log
 */
export function proveAuditInclusion(sequence: number, treeSize: number, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** Base64. */
                leafHash: string;
                /** From the leaf up (RFC 9162, section 2.1). */
                proof: string[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/audit/inclusion${QS.query(QS.explode({
        sequence,
        treeSize
    }))}`, {
        ...opts
    });
}
/**
 * Prove that the log has only grown
 */
export function proveAuditConsistency($from: number, to: number, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** From the leaf up (RFC 9162, section 2.1). */
                proof: string[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/audit/consistency${QS.query(QS.explode({
        "from": $from,
        to
    }))}`, {
        ...opts
    });
}
/**
 * Count logins, refusals and open calls
 */
export function summarizeAuditLog({ $from, to, interval }: {
    $from?: string;
    to?: string;
    interval?: "hour" | "day";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** As it was counted: whole hours or days of UTC. */
                "from": string;
                to: string;
                /** In the order of time. An hour or day without logins and failures is left out. */
                buckets: {
                    start: string;
                    logins: number;
                    failures: number;
                }[];
                /** By the reason of the entries `user.login_failed`, most frequent first. */
                refusals: {
                    reason: string;
                    count: number;
                }[];
                /** Calls that have had no outcome for a minute or more, counted up to 10,000. */
                openIntents: {
                    count: number;
                    oldest: string | null;
                };
                /** Sequence of the last entry in the counts: some seconds behind `size`. */
                countedUpTo: number;
                /** Sequence of the last entry of the log. */
                size: number;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/audit/summary${QS.query(QS.explode({
        "from": $from,
        to,
        interval
    }))}`, {
        ...opts
    });
}
/**
 * Follow the audit log
 */
export function followAuditLog({ actor, action, resource, outcome, after }: {
    actor?: string;
    action?: string;
    resource?: string;
    outcome?: "success" | "failure" | "unknown";
    after?: number;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                entries: AuditEntry[];
                /** For the next call. */
                nextAfter: number;
                /** Sequence of the last entry of the log. */
                size: number;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/audit/tail${QS.query(QS.explode({
        actor,
        action,
        resource,
        outcome,
        after
    }))}`, {
        ...opts
    });
}
/**
 * Export what a search finds
 */
export function exportAuditLog({ actor, action, resource, outcome, requestId, $from, to, format }: {
    actor?: string;
    action?: string;
    resource?: string;
    outcome?: "success" | "failure" | "unknown";
    requestId?: string;
    $from?: string;
    to?: string;
    format?: "ndjson" | "csv";
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: string;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/audit/export${QS.query(QS.explode({
        actor,
        action,
        resource,
        outcome,
        requestId,
        "from": $from,
        to,
        format
    }))}`, {
        ...opts
    });
}
/**
 * List the signing keys
 */
export function listSigningKeys(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                keys: SigningKey[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/admin/keys", {
        ...opts
    });
}
/**
 * Ask each service whether it answers
 */
export function getHealth(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                services: {
                    name: "identity-service" | "token-service" | "audit-service";
                    /** Whether it answered this gateway a call that needs its database. */
                    ready: boolean;
                    /** How long that took. */
                    latencyMs: number;
                }[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/admin/health", {
        ...opts
    });
}
/**
 * List the roles
 */
export function listRoles(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                roles: Role[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/admin/roles", {
        ...opts
    });
}
/**
 * List users
 */
export function listUsers({ query, role, status, cursor, limit }: {
    query?: string;
    role?: string;
    status?: "active" | "disabled";
    cursor?: string;
    limit?: number;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                users: ManagedUser[];
                /** For the next page; null on the last one. */
                nextCursor: string | null;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/users${QS.query(QS.explode({
        query,
        role,
        status,
        cursor,
        limit
    }))}`, {
        ...opts
    });
}
/**
 * Show a user
 */
export function getUser(id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                user: ManagedUser;
                details: UserDetails;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/users/${encodeURIComponent(id)}`, {
        ...opts
    });
}
/**
 * Change what a user may do
 */
export function updateUser(id: string, body: {
    role?: string;
    status?: "active" | "disabled";
    mustChangePassword?: boolean;
    /** What becomes of the user's clients: they live on without an owner, as by default, or are disabled too, which needs `clients:write`. A change has it with status `disabled` only. */
    clients?: "keep" | "disable";
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                user: ManagedUser;
                /** Of a user who is disabled or deleted: the clients that were active, newest first, at most 100, as they are now. Give those that live on to another owner, and change the secrets that the user may know. */
                clients: {
                    id: string;
                    name: string;
                    status: "active" | "disabled";
                }[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "last_admin" | "conflict";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/users/${encodeURIComponent(id)}`, oazapfts.json({
        ...opts,
        method: "PATCH",
        body
    }));
}
/**
 * Delete a user
 */
export function deleteUser(id: string, body?: {
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
    /** What becomes of the user's clients: they live on without an owner, as by default, or are disabled too, which needs `clients:write`. A change has it with status `disabled` only. */
    clients?: "keep" | "disable";
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** Of a user who is disabled or deleted: the clients that were active, newest first, at most 100, as they are now. Give those that live on to another owner, and change the secrets that the user may know. */
                clients: {
                    id: string;
                    name: string;
                    status: "active" | "disabled";
                }[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "last_admin" | "conflict";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/users/${encodeURIComponent(id)}`, oazapfts.json({
        ...opts,
        method: "DELETE",
        body
    }));
}
/**
 * Forget a user's failed logins
 */
export function unlockUser(id: string, body?: {
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/users/${encodeURIComponent(id)}/unlock`, oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * List a user's sessions
 */
export function listUserSessions(id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                sessions: Session[];
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/users/${encodeURIComponent(id)}/sessions`, {
        ...opts
    });
}
/**
 * End a user's sessions
 */
export function endUserSessions(id: string, body?: {
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                /** How many. */
                ended: number;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/users/${encodeURIComponent(id)}/sessions/revoke`, oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Take a user's second factor away
 */
export function resetUserMfa(id: string, body?: {
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/users/${encodeURIComponent(id)}/mfa/reset`, oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * List clients
 */
export function listClients({ owner, cursor, limit }: {
    owner?: "none" | string;
    cursor?: string;
    limit?: number;
} = {}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                clients: Client[];
                /** For the next page; null on the last one. */
                nextCursor: string | null;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/clients${QS.query(QS.explode({
        owner,
        cursor,
        limit
    }))}`, {
        ...opts
    });
}
/**
 * Make a client
 */
export function createClient(body: {
    name: string;
    ownerId: string;
    permissions: string[];
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 201;
        data: {
            success: true;
            data: {
                client: Client;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/admin/clients", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Show a client with its credentials
 */
export function getClient(id: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                client: ClientWithCredentials;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/clients/${encodeURIComponent(id)}`, {
        ...opts
    });
}
/**
 * Change a client
 */
export function updateClient(id: string, body: {
    name?: string;
    ownerId?: string;
    permissions?: string[];
    status?: "active" | "disabled";
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                client: Client;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/clients/${encodeURIComponent(id)}`, oazapfts.json({
        ...opts,
        method: "PATCH",
        body
    }));
}
/**
 * Delete a client
 */
export function deleteClient(id: string, body?: {
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/clients/${encodeURIComponent(id)}`, oazapfts.json({
        ...opts,
        method: "DELETE",
        body
    }));
}
/**
 * Add a public key, a secret or an API key
 */
export function addClientCredential(id: string, body: {
    kind: "public_key";
    name?: string;
    /** A public JWK: Ed25519, P-256, or RSA of 2048 to 4096 bits. */
    publicKey: {
        kty: string;
        [key: string]: unknown;
    };
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
} | {
    kind: "secret" | "api_key";
    name?: string;
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 201;
        data: {
            success: true;
            data: {
                credential: ClientCredential;
                secret: string | null;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 409;
        data: Failure & {
            error: {
                code: "conflict";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/clients/${encodeURIComponent(id)}/credentials`, oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Revoke a credential
 */
export function removeClientCredential(id: string, credentialId: string, body?: {
    /** Why, for the audit log, which never forgets it: one line without e-mail addresses, numbers of nine digits or more, or secrets. */
    reason?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_missing" | "token_invalid" | "token_expired" | "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "step_up_required";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "forbidden" | "role_not_defined" | "user_required";
            };
        };
    } | {
        status: 404;
        data: Failure & {
            error: {
                code: "not_found";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/admin/clients/${encodeURIComponent(id)}/credentials/${encodeURIComponent(credentialId)}`, oazapfts.json({
        ...opts,
        method: "DELETE",
        body
    }));
}
/**
 * Where and how clients get tokens (RFC 8414)
 */
export function getAuthorizationServer(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: AuthorizationServer;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/.well-known/oauth-authorization-server", {
        ...opts
    });
}
/**
 * Whose tokens this API takes (RFC 9728)
 */
export function getProtectedResource(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: ProtectedResource;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/.well-known/oauth-protected-resource", {
        ...opts
    });
}
/**
 * The public keys of access tokens
 */
export function getKeys(opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: JwkSet;
    } | {
        status: 304;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/.well-known/jwks.json", {
        ...opts
    });
}
/**
 * Page: prove an address
 */
export function verifyEmailPage(token: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: string;
    } | {
        status: 303;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/verify-email${QS.query(QS.explode({
        token
    }))}`, {
        ...opts
    });
}
/**
 * Verify an address by the mailed token
 */
export function verifyEmail(body: {
    /** From the mail. */
    token: string;
    /** Of the account, unless its access token comes along. */
    password?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                user: User;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "verification_token_invalid";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "invalid_credentials";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/verify-email", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Page: I did not make this account
 */
export function disownAccountPage(token: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: string;
    } | {
        status: 303;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/disown-account${QS.query(QS.explode({
        token
    }))}`, {
        ...opts
    });
}
/**
 * Say by the token of a verification mail that somebody else made the account
 */
export function disownAccount(body: {
    /** From the mail. */
    token: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "verification_token_invalid";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/disown-account", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Page: a new password
 */
export function resetPasswordPage(token: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: string;
    } | {
        status: 303;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/reset-password${QS.query(QS.explode({
        token
    }))}`, {
        ...opts
    });
}
/**
 * Set a new password by the mailed token
 */
export function resetPassword(body: {
    /** From the mail. */
    token: string;
    newPassword: string;
    /** Whether logins at providers that were linked in the last 30 days stay. By default the reset removes them: whoever stole the old password may have linked them. */
    keepRecentLogins?: boolean;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "password_too_short" | "password_too_common" | "password_contains_email" | "password_unchanged" | "reset_token_invalid";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/reset-password", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Page: use another address
 */
export function confirmEmailChangePage(token: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: string;
    } | {
        status: 303;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/confirm-email-change${QS.query(QS.explode({
        token
    }))}`, {
        ...opts
    });
}
/**
 * Confirm another address by the token mailed to it
 */
export function confirmEmailChange(body: {
    /** From the mail. */
    token: string;
    /** Of the account, unless its access token comes along. */
    password?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {
                user: User;
            };
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "verification_token_invalid";
            };
        };
    } | {
        status: 401;
        data: Failure & {
            error: {
                code: "token_proof_missing" | "token_proof_invalid" | "token_proof_needs_nonce" | "invalid_credentials";
            };
        };
    } | {
        status: 403;
        data: Failure & {
            error: {
                code: "reauthentication_required";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable" | "busy";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/confirm-email-change", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Page: take an address back
 */
export function undoEmailChangePage(token: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: string;
    } | {
        status: 303;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/undo-email-change${QS.query(QS.explode({
        token
    }))}`, {
        ...opts
    });
}
/**
 * Take a change of address back by the token mailed to the old one
 */
export function undoEmailChange(body: {
    /** From the mail. */
    token: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "verification_token_invalid";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/undo-email-change", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Page: take a new way to log in back
 */
export function undoAccessChangePage(token: string, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: string;
    } | {
        status: 303;
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>(`/auth/undo-access-change${QS.query(QS.explode({
        token
    }))}`, {
        ...opts
    });
}
/**
 * Take a new second factor or login at a provider back by the token mailed when it was set up
 */
export function undoAccessChange(body: {
    /** From the mail. */
    token: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {
            success: true;
            data: {};
            /** For people; not part of the API. */
            message: string;
        };
    } | {
        status: 400;
        data: Failure & {
            error: {
                code: "validation_failed" | "bad_request" | "verification_token_invalid";
            };
        };
    } | {
        status: 408;
        data: Failure & {
            error: {
                code: "request_timeout";
            };
        };
    } | {
        status: 413;
        data: Failure & {
            error: {
                code: "payload_too_large";
            };
        };
    } | {
        status: 414;
        data: Failure & {
            error: {
                code: "uri_too_long";
            };
        };
    } | {
        status: 415;
        data: Failure & {
            error: {
                code: "unsupported_media_type";
            };
        };
    } | {
        status: 421;
        data: Failure & {
            error: {
                code: "misdirected_request";
            };
        };
    } | {
        status: 429;
        data: Failure & {
            error: {
                code: "too_many_requests";
            };
        };
    } | {
        status: 431;
        data: Failure & {
            error: {
                code: "headers_too_large";
            };
        };
    } | {
        status: 500;
        data: Failure & {
            error: {
                code: "internal_error";
            };
        };
    } | {
        status: 501;
        data: Failure & {
            error: {
                code: "not_implemented";
            };
        };
    } | {
        status: 503;
        data: Failure & {
            error: {
                code: "service_unavailable" | "audit_unavailable";
            };
        };
    } | {
        status: 505;
        data: Failure & {
            error: {
                code: "http_version_not_supported";
            };
        };
    }>("/auth/undo-access-change", oazapfts.json({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Get an access token as a client (RFC 6749, section 4.4)
 */
export function issueClientToken(body: {
    grant_type: "client_credentials";
    scope?: string;
    [key: string]: unknown;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: ClientToken;
    } | {
        status: 400;
        data: {
            error: "invalid_request" | "invalid_scope" | "invalid_dpop_proof" | "use_dpop_nonce" | "unsupported_grant_type";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 401;
        data: {
            error: "invalid_client";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 408;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 413;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 414;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 415;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 421;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 429;
        data: {
            error: "temporarily_unavailable";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 431;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 500;
        data: {
            error: "server_error";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 501;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 503;
        data: {
            error: "temporarily_unavailable";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 505;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    }>("/oauth/token", oazapfts.form({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Revoke an access token of the client (RFC 7009)
 */
export function revokeClientToken(body: {
    token: string;
    token_type_hint?: string;
    [key: string]: unknown;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: {};
    } | {
        status: 400;
        data: {
            error: "invalid_request" | "unauthorized_client" | "unsupported_token_type";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 401;
        data: {
            error: "invalid_client";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 408;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 413;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 414;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 415;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 421;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 429;
        data: {
            error: "temporarily_unavailable";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 431;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 500;
        data: {
            error: "server_error";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 501;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 503;
        data: {
            error: "temporarily_unavailable";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 505;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    }>("/oauth/revoke", oazapfts.form({
        ...opts,
        method: "POST",
        body
    }));
}
/**
 * Introspect an access token (RFC 7662)
 */
export function introspectToken(body: {
    token: string;
    token_type_hint?: string;
}, opts?: Oazapfts.RequestOpts) {
    return oazapfts.fetchJson<{
        status: 200;
        data: Introspection;
    } | {
        status: 400;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 401;
        data: {
            error: "invalid_client";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 408;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 413;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 414;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 415;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 421;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 429;
        data: {
            error: "temporarily_unavailable";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 431;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 500;
        data: {
            error: "server_error";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 501;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 503;
        data: {
            error: "temporarily_unavailable";
            /** For people; not part of the API. */
            error_description: string;
        };
    } | {
        status: 505;
        data: {
            error: "invalid_request";
            /** For people; not part of the API. */
            error_description: string;
        };
    }>("/oauth/introspect", oazapfts.form({
        ...opts,
        method: "POST",
        body
    }));
}
