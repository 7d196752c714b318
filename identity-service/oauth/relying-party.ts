import * as oidc from "openid-client";
import type { Logger } from "#kit/telemetry/logger.ts";
import { withinDeadline } from "#kit/values/call-deadline.ts";
import { DomainError } from "#kit/values/errors.ts";
import { isAllowedUrl, type OutboundHttp } from "#outbound-http/outbound-http.ts";
import { appleClientSecret } from "./apple-client-secret.ts";
import { type ExternalPerson, githubPerson, personOfClaims } from "./external-person.ts";
import { challengeOf } from "./oauth-flow-secrets.ts";
import type { ProviderSettings } from "./oauth-provider-settings.ts";
import { createSecurityEventSource, type SecurityEventSource } from "./security-event-source.ts";

interface FlowProof {
  state: string;
  nonce: string;
  verifier: string;
}

export interface ProviderAnswer {
  code: string;
  state: string;
  iss: string;
  error: string;
}

/** The client of one identity provider (OpenID Connect Core §1.2). */
export interface RelyingParty {
  readonly name: string;
  readonly displayName: string;
  readonly issuer: string;
  /** @throws {DomainError} `service_unavailable` until the first discovery succeeds. */
  authorizationUrl(departure: FlowProof & { isAfresh: boolean }, deadlineMs: number): Promise<URL>;
  /** Takes at most 5 s. Errors hold no text of the provider. @throws {DomainError} `oauth_denied`, `oauth_failed`, `service_unavailable`. */
  identify(answer: ProviderAnswer, proof: FlowProof): Promise<ExternalPerson>;
  /** A failure keeps the known metadata. */
  refresh(): Promise<void>;
  /** Undefined: its security events are not taken. */
  readonly securityEvents?: SecurityEventSource | undefined;
}

export interface RelyingPartyOptions {
  settings: ProviderSettings;
  /** `scheme://host[:port]`. */
  publicOrigin: string;
  http: OutboundHttp;
  /** Milliseconds since the epoch. */
  nowMs: () => number;
  logger: Logger;
  /** Limits all requests of one login. */
  timeoutMs?: number;
}

const TIMEOUT_MS = 5_000;
/** RFC 7519 §4.1.4 allows a few minutes. */
const CLOCK_TOLERANCE_S = 30;
const A_YEAR_S = String(365 * 86_400);
/** openid-client reloads a key set for unknown keys at this age. */
const REREADABLE_AGE_S = 60;

type KeySet = NonNullable<ReturnType<typeof oidc.getJwksCache>>;

export function createRelyingParty(options: RelyingPartyOptions): RelyingParty {
  const { settings, publicOrigin, http, nowMs, logger, timeoutMs = TIMEOUT_MS } = options;
  const { name, displayName, issuer, network } = settings;
  const redirectUri = `${publicOrigin}/auth/${name}/callback`;
  let metadata: oidc.ServerMetadata | undefined = configuredMetadata(settings);
  let refreshing: Promise<void> | undefined;
  let keys: KeySet | undefined;

  /** One per login, because of the deadline. */
  const configurationOf = (known: oidc.ServerMetadata, signal: AbortSignal | undefined) => {
    const configuration = new oidc.Configuration(
      known,
      settings.clientId,
      { [oidc.clockTolerance]: CLOCK_TOLERANCE_S },
      clientAuthentication(settings, nowMs),
    );
    configuration[oidc.customFetch] = (url, request) =>
      http.fetch(url, { ...request, body: request.body as string | URLSearchParams, signal });
    // For development.
    if (network === "loopback") oidc.allowInsecureRequests(configuration);
    // Optional over TLS (OpenID Connect Core §3.1.3.7); we require it.
    oidc.enableNonRepudiationChecks(configuration);
    return configuration;
  };

  const refresh = async () => {
    if (settings.endpoints !== undefined) return;
    const found = await discover(settings, http);
    if (metadata !== undefined && found.jwks_uri !== metadata.jwks_uri) keys = undefined;
    metadata = found;
  };
  const refreshOnce = () => {
    refreshing ??= refresh().finally(() => {
      refreshing = undefined;
    });
    return refreshing;
  };
  const known = async (deadlineMs: number): Promise<oidc.ServerMetadata> => {
    if (metadata === undefined) {
      await withinDeadline(refreshOnce(), Math.max(0, deadlineMs - nowMs())).catch((cause: unknown) => {
        throw new DomainError("service_unavailable", undefined, { cause, retryAfterMs: 5_000 });
      });
    }
    if (metadata === undefined) throw new DomainError("service_unavailable");
    return metadata;
  };

  return {
    name,
    displayName,
    issuer,
    refresh: refreshOnce,
    securityEvents:
      settings.securityEvents &&
      createSecurityEventSource(settings.securityEvents, {
        issuer,
        http,
        nowMs,
        jwksOf: async (deadlineMs) => (await known(deadlineMs)).jwks_uri,
      }),
    async authorizationUrl({ state, nonce, verifier, isAfresh }, deadlineMs) {
      const configuration = configurationOf(await known(deadlineMs), undefined);
      return oidc.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: settings.scopes.join(" "),
        state,
        code_challenge: challengeOf(verifier),
        code_challenge_method: "S256",
        ...(settings.protocol === "oidc" && { nonce }),
        ...(settings.responseMode === "form_post" && { response_mode: "form_post" }),
        ...howToAsk(settings, isAfresh),
      });
    },
    async identify(answer, proof) {
      const signal = AbortSignal.timeout(timeoutMs);
      // The provider may have been configured anew since the browser left.
      const configuration = configurationOf(await known(nowMs() + timeoutMs), signal);
      useKeys(configuration, keys, nowMs());
      try {
        return await exchange({ configuration, settings, logger }, answerUrl(redirectUri, answer), proof);
      } catch (error) {
        throw failure(error, name, logger);
      } finally {
        keys = keysAfter(configuration, keys);
      }
    },
  };
}

async function exchange(
  party: { configuration: oidc.Configuration; settings: ProviderSettings; logger: Logger },
  answer: URL,
  { state, nonce, verifier }: FlowProof,
): Promise<ExternalPerson> {
  const { configuration, settings, logger } = party;
  const checks = { expectedState: state, pkceCodeVerifier: verifier };
  if (settings.protocol === "github") {
    const tokens = await oidc.authorizationCodeGrant(configuration, answer, checks);
    return githubPerson(configuration, tokens.access_token, settings.endpoints?.userinfo ?? "");
  }
  const tokens = await oidc.authorizationCodeGrant(configuration, answer, {
    ...checks,
    expectedNonce: nonce,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (claims === undefined) throw new DomainError("oauth_failed");
  const hasUserinfo = configuration.serverMetadata().userinfo_endpoint !== undefined;
  const hasEmail = claims[settings.claims.email] !== undefined || !hasUserinfo;
  // Some providers send the address only there. `sub` must match.
  const more = hasEmail ? {} : await oidc.fetchUserInfo(configuration, tokens.access_token, claims.sub);
  const { emailVerified } = settings.claims;
  // It speaks of the address that came with it.
  const all: Record<string, unknown> = hasEmail ? claims : { ...claims, [emailVerified]: undefined, ...more };
  if (!["boolean", "undefined"].includes(typeof all[emailVerified]) && !settings.takesBooleanText) {
    logger.warn(
      { provider: settings.name, claim: emailVerified },
      "a provider's claim is not a boolean, so the address counts as not verified",
    );
  }
  const { auth_time: authTimeS } = claims;
  const authTime = authTimeS === undefined ? undefined : new Date(authTimeS * 1_000);
  return { ...personOfClaims(all, claims.sub, settings), authTime };
}

/** With a `max_age`, however long, the ID token has `auth_time` (OpenID Connect Core §3.1.2.1). */
function howToAsk({ afreshPrompt }: ProviderSettings, isAfresh: boolean): Record<string, string> {
  if (afreshPrompt === "login") return isAfresh ? { prompt: "login", max_age: "0" } : { max_age: A_YEAR_S };
  return isAfresh && afreshPrompt !== undefined ? { prompt: afreshPrompt } : {};
}

function answerUrl(redirectUri: string, answer: ProviderAnswer): URL {
  const url = new URL(redirectUri);
  for (const key of ["code", "state", "iss", "error"] as const) {
    if (answer[key] !== "") url.searchParams.set(key, answer[key]);
  }
  return url;
}

function configuredMetadata({ issuer, endpoints }: ProviderSettings): oidc.ServerMetadata | undefined {
  if (endpoints === undefined) return undefined;
  return {
    issuer,
    authorization_endpoint: endpoints.authorization,
    token_endpoint: endpoints.token,
    ...(endpoints.jwks !== undefined && { jwks_uri: endpoints.jwks }),
    ...(endpoints.userinfo !== undefined && { userinfo_endpoint: endpoints.userinfo }),
  };
}

/** @throws {Error} for another issuer or a forbidden endpoint. */
async function discover(settings: ProviderSettings, http: OutboundHttp): Promise<oidc.ServerMetadata> {
  const { issuer, network } = settings;
  const configuration = await oidc.discovery(new URL(issuer), settings.clientId, undefined, oidc.None(), {
    [oidc.customFetch]: (url, request) =>
      http.fetch(url, { method: request.method, headers: request.headers }),
    execute: network === "loopback" ? [oidc.allowInsecureRequests] : [],
  });
  const metadata = configuration.serverMetadata();
  if (metadata.issuer !== issuer) throw new Error("the discovery document names another issuer");
  const required = [metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri];
  const asked = [
    ...required,
    ...(metadata.userinfo_endpoint === undefined ? [] : [metadata.userinfo_endpoint]),
  ];
  if (!asked.every((url) => url !== undefined && isAllowedUrl(url, network))) {
    throw new Error("the discovery document lacks an endpoint, or names a forbidden one");
  }
  return JSON.parse(JSON.stringify(metadata)) as oidc.ServerMetadata;
}

function clientAuthentication(
  { clientId, clientAuthentication: how }: ProviderSettings,
  nowMs: () => number,
): oidc.ClientAuth {
  switch (how.kind) {
    case "none":
      return oidc.None();
    case "client_secret_basic":
      return oidc.ClientSecretBasic(how.secret.reveal());
    case "client_secret_post":
      return oidc.ClientSecretPost(how.secret.reveal());
    case "apple":
      return (_server, _client, body) => {
        const { teamId, keyId } = how;
        const nowS = Math.floor(nowMs() / 1_000);
        const secret = appleClientSecret(
          { teamId, keyId, clientId, privateKey: how.privateKey.reveal() },
          nowS,
        );
        body.set("client_id", clientId);
        body.set("client_secret", secret);
      };
  }
}

/** Aged, so that an unknown key causes a reload. */
function useKeys(configuration: oidc.Configuration, keys: KeySet | undefined, nowMs: number): void {
  if (keys === undefined) return;
  const rereadable = Math.floor(nowMs / 1_000) - REREADABLE_AGE_S;
  oidc.setJwksCache(configuration, { jwks: keys.jwks, uat: Math.min(keys.uat, rereadable) });
}

function keysAfter(configuration: oidc.Configuration, before: KeySet | undefined): KeySet | undefined {
  const after = oidc.getJwksCache(configuration);
  if (after === undefined) return before;
  return before !== undefined && after.uat < before.uat ? before : after;
}

/** RFC 6749 §4.1.2.1. */
const DENIALS = new Set(["access_denied", "user_cancelled_login", "user_cancelled_authorize"]);

function failure(error: unknown, provider: string, logger: Logger): DomainError {
  if (error instanceof oidc.AuthorizationResponseError) {
    return new DomainError(DENIALS.has(error.error) ? "oauth_denied" : "oauth_failed");
  }
  logger.warn({ provider, reason: reasonOf(error) }, "a login at an identity provider failed");
  return new DomainError("oauth_failed");
}

/** Never the error, whose causes may hold tokens. */
export function reasonOf(error: unknown): string {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause.name === "OutboundError") return cause.message;
    if (cause instanceof DomainError) return cause.message;
    const { code } = cause as { code?: unknown };
    if (typeof code === "string" && /^[A-Z][A-Z_]{2,63}$/.test(code)) return code;
  }
  return error instanceof Error ? error.name : "unknown";
}
