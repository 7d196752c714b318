import { toRpcError } from "#kit/rpc/rpc-errors.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError, ERROR_CATALOGUE, type ErrorCode } from "#kit/values/errors.ts";
import {
  HeaderValueOption_HeaderAppendAction as HeaderAppendAction,
  type HeaderValueOption,
} from "#proto/envoy/config/core/v3/base.ts";
import type { AuthorizationServer, CheckResponse } from "#proto/envoy/service/auth/v3/external_auth.ts";
import { StatusCode } from "#proto/envoy/type/v3/http_status.ts";
import { bearerToken } from "#token-client/bearer-token.ts";
import { type AccessClaims, isOfClient } from "./tokens/access-token.ts";
import { type VerifyTokenDeps, verifyToken } from "./tokens/verify-token.ts";

export function envoyCallers(envoys: readonly string[]): Callers<AuthorizationServer> {
  return { check: envoys };
}

type RefusalCode = "token_missing" | "token_invalid" | "token_expired";

/** Written as at the gateway (RFC 6750 §3). */
const CHALLENGE: Record<RefusalCode, string> = {
  token_missing: 'Bearer error="invalid_request", realm="gatehouse"',
  token_invalid: 'Bearer error="invalid_token", realm="gatehouse"',
  token_expired: 'Bearer error="invalid_token", error_description="The token has expired", realm="gatehouse"',
};

/** Upstreams may trust these, which else only the gateway sends. Many read `x_user_id` as `X-User-Id`. */
const IDENTITY_HEADER =
  /^x[-_](?:(?:user|session|approval)(?:[-_]|$)|client[-_]id$|scope$|auth[-_](?:context|time)$)/;
/** `context_extensions`: whose tokens to accept. Absent: the issuer's. */
const AUDIENCE_EXTENSION = "audience";
const REQUEST_ID = /^[A-Za-z0-9-]{1,64}$/;

/**
 * `failure_mode_allow` must be false: this fails with UNAVAILABLE while revocations are uncertain
 * (docs/envoy.md).
 */
export function createEnvoyAuthRpc(deps: VerifyTokenDeps): Implementation<AuthorizationServer> {
  return {
    async check({ attributes }, { requestId }) {
      const headers = attributes?.request?.http?.headers ?? {};
      try {
        const audience = attributes?.contextExtensions[AUDIENCE_EXTENSION];
        return passed(await verifyClaims(deps, headers.authorization, audience), Object.keys(headers));
      } catch (error) {
        const code = error instanceof DomainError ? error.code : undefined;
        if (!isRefusal(code)) throw error;
        return refused(code, envoysRequestId(headers) ?? requestId);
      }
    },
  };
}

async function verifyClaims(
  deps: VerifyTokenDeps,
  authorization: string | undefined,
  audience: string | undefined,
): Promise<AccessClaims> {
  const verdict = await verifyToken(deps, bearerToken(authorization), { audience });
  if (verdict.active) return verdict.token.claims;
  throw new DomainError(verdict.refusal === "exp" ? "token_expired" : "token_invalid");
}

function isRefusal(code: ErrorCode | undefined): code is RefusalCode {
  return code !== undefined && Object.hasOwn(CHALLENGE, code);
}

function passed(claims: AccessClaims, names: readonly string[]): CheckResponse {
  const identity = identityOf(claims);
  // Envoy removes headers after it sets them.
  const kept = new Set(identity.map((option) => option.header?.key));
  const headersToRemove = names.filter((name) => IDENTITY_HEADER.test(name.toLowerCase()) && !kept.has(name));
  return {
    status: { code: 0, message: "", details: [] },
    httpResponse: { $case: "okResponse", value: { headers: identity, headersToRemove } },
  };
}

/** A client has no role: an upstream that asks for one refuses it. */
function identityOf(claims: AccessClaims): HeaderValueOption[] {
  const session = header("x-session-id", claims.sid);
  if (isOfClient(claims))
    return [header("x-client-id", claims.client_id), header("x-scope", claims.scope), session];
  return [
    header("x-user-id", claims.sub),
    header("x-user-role", claims.role),
    session,
    header("x-auth-context", claims.acr),
    header("x-auth-time", String(claims.auth_time)),
  ];
}

function refused(code: RefusalCode, requestId: string): CheckResponse {
  const message = ERROR_CATALOGUE[code];
  return {
    status: { code: toRpcError(new DomainError(code)).code ?? -1, message, details: [] },
    httpResponse: {
      $case: "deniedResponse",
      value: {
        status: { code: StatusCode.Unauthorized },
        headers: [
          header("www-authenticate", CHALLENGE[code]),
          header("content-type", "application/json; charset=utf-8"),
          header("cache-control", "no-store"),
          header("x-request-id", requestId),
        ],
        body: JSON.stringify({ success: false, message, error: { code, requestId } }),
      },
    },
  };
}

function envoysRequestId(headers: Record<string, string>): string | undefined {
  const id = headers["x-request-id"];
  return id !== undefined && REQUEST_ID.test(id) ? id : undefined;
}

function header(key: string, value: string): HeaderValueOption {
  return { header: { key, value }, appendAction: HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD };
}
