import { randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { type Implementation, RpcServer } from "#kit/rpc/rpc-server.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import {
  InactiveReason,
  type PartState,
  type Revocation,
  type TokenServiceServer,
  TokenServiceService,
  type VerifyTokenRequest,
  type VerifyTokenResponse,
  type WatchRevocationsRequest,
  type WatchRevocationsResponse,
} from "#proto/gatehouse/token/v1/token_service.ts";
import {
  ISSUER,
  type IssuedToken,
  issueToken,
  KEY_ID,
  OTHER_KEY_ID,
  type TokenWishes,
} from "./issued-tokens.ts";

const HEARTBEAT_MS = 200;
const KEEP_S = 910;
const HOUR_MS = 3_600_000;
const CALLER = "payments-service";

/** What VerifyToken does: answer, wait for ever, or fail with this code; `defect` is a bug of token-service. */
type Manner = "answers" | "hangs" | "defect" | ErrorCode;

/** A database with some of the users. */
interface ScriptedPart {
  readonly slots: Set<number>;
  isSilent: boolean;
  /** False: its messages say that more revocations of it are to come. */
  isCaughtUp: boolean;
}

/** A token-service that does what a test says. Revocations are reported by the stream alone: VerifyToken knows none. */
export class ScriptedTokenService {
  readonly #certificate: ProcessCertificate;
  readonly #tokens = new Map<string, IssuedToken>();
  readonly #changes = new EventEmitter().setMaxListeners(0);
  #server: RpcServer | undefined;
  #port = 0;
  #log: Revocation[] = [];
  #tips: string[] = [];
  #epoch = 0;
  #parts: readonly ScriptedPart[] = [];
  #keyIds: readonly string[] = [KEY_ID, OTHER_KEY_ID];
  /** Counts calls of VerifyToken. */
  manner: Manner = "answers";
  /** Fails with UNAVAILABLE as many calls as this first. */
  failuresAhead = 0;
  isSilent = false;
  /** New streams begin so much later: to a verifier all their messages are late by this, as after a slow handshake. */
  openingMs = 0;
  /** False: each message says that more revocations are to come. */
  isCaughtUp = true;
  /** How far this service's wall clock is ahead. */
  wallAheadMs = 0;
  readonly calls: (VerifyTokenRequest & { leftMs: number })[] = [];
  readonly streams: WatchRevocationsRequest[] = [];
  /** By the monotonic clock: when the last message of a stream began to be sent. */
  lastMessageMs = Number.NEGATIVE_INFINITY;

  constructor(certificate: ProcessCertificate) {
    this.#certificate = certificate;
  }

  get port(): number {
    return this.#port;
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  get sequence(): number {
    return this.#log.length;
  }

  /** Names the newest entry. */
  get tip(): string {
    return this.#tips.at(-1) ?? "";
  }

  /** On the port of before, if there was one. */
  async start(): Promise<void> {
    const logger = pino({ level: "silent" });
    const metrics = createMetrics("token-service");
    const address = `127.0.0.1:${this.#port}`;
    const server = new RpcServer({ address, certificate: this.#certificate, logger, metrics });
    const callers = { verifyToken: [CALLER], watchRevocations: [CALLER], getJwks: [] };
    server.add(TokenServiceService, callers, this.#implementation());
    this.#port = await server.listen();
    this.#server = server;
  }

  async stop(): Promise<void> {
    await this.#server?.close(0);
    this.#server = undefined;
  }

  issue(wishes: TokenWishes = {}): IssuedToken {
    const token = issueToken(wishes, Date.now() + this.wallAheadMs);
    this.#tokens.set(token.text, token);
    return token;
  }

  callsOf(token: string): number {
    return this.calls.filter((call) => call.token === token).length;
  }

  revokeSession(sessionId: string): void {
    this.#revoke({ $case: "sessionId", value: sessionId });
  }

  banKey(keyId: string): void {
    this.#revoke({ $case: "keyId", value: keyId });
  }

  /** Is sent with the next message. */
  addKey(keyId: string): void {
    this.#keyIds = [...this.#keyIds, keyId];
  }

  revokeSomethingNew(): void {
    this.#revoke(undefined);
  }

  /** As after a back-up was restored: the log begins again, with numbers of before and other marks. */
  restoreLog(...sessionIds: string[]): void {
    this.#log = [];
    this.#tips = [];
    for (const value of sessionIds) this.#append({ $case: "sessionId", value });
    this.breakStreams();
  }

  breakStreams(): void {
    this.#epoch += 1;
    this.#changes.emit("change");
  }

  /** From the next message on there are two parts. @returns 0 and 1. */
  divide(slots: readonly number[], otherSlots: readonly number[]): [ScriptedPart, ScriptedPart] {
    const part = (own: readonly number[]) => ({ slots: new Set(own), isSilent: false, isCaughtUp: true });
    const parts: [ScriptedPart, ScriptedPart] = [part(slots), part(otherSlots)];
    this.#parts = parts;
    return parts;
  }

  /** From the next message on one database has all users. */
  unite(): void {
    this.#parts = [];
  }

  /** Of calls that hang. */
  release(): void {
    this.manner = "answers";
    this.#changes.emit("change");
  }

  #revoke(target: Revocation["target"]): void {
    this.#append(target);
    this.#changes.emit("change");
  }

  #append(target: Revocation["target"]): void {
    const expiresAt = new Date(Date.now() + this.wallAheadMs + HOUR_MS / 4);
    this.#log.push({ sequence: this.#log.length + 1, target, expiresAt });
    this.#tips.push(randomUUID());
  }

  #implementation(): Implementation<TokenServiceServer> {
    return {
      verifyToken: async (request, { deadlineMs }) => {
        this.calls.push({ ...request, leftMs: deadlineMs - Date.now() });
        while (this.manner === "hangs") await once(this.#changes, "change");
        if (this.manner === "defect") throw new Error("a defect of the scripted token-service");
        if (this.manner !== "answers") throw new DomainError(this.manner);
        if (this.failuresAhead > 0) {
          this.failuresAhead -= 1;
          throw new DomainError("service_unavailable");
        }
        return this.#verdict(request);
      },
      watchRevocations: (request, { signal }) => this.#watch(request, signal),
      getJwks: async () => ({ jwksJson: "{}", maxAgeS: 1, issuer: "" }),
    };
  }

  #verdict(request: VerifyTokenRequest): VerifyTokenResponse {
    const token = this.#tokens.get(request.token);
    const refusal = { active: false, principal: undefined, expiresInMs: 0 };
    const isMeant =
      (request.audience ?? ISSUER) === token?.audience &&
      (token.principal.confirmation === undefined || request.acceptsBound === true);
    if (token === undefined || (!isMeant && token.answer.active !== true))
      return { ...refusal, reason: InactiveReason.INVALID };
    const leftMs = Math.floor(token.endsAtMs - performance.now());
    if (leftMs <= 0) return { ...refusal, reason: InactiveReason.EXPIRED };
    const { principal } = token;
    return {
      active: true,
      reason: InactiveReason.UNSPECIFIED,
      principal,
      expiresInMs: leftMs,
      ...token.answer,
    };
  }

  async *#watch(
    request: WatchRevocationsRequest,
    signal: AbortSignal,
  ): AsyncIterable<WatchRevocationsResponse> {
    this.streams.push(request);
    await sleep(this.openingMs, undefined, { signal }).catch(() => undefined);
    const beganMs = performance.now();
    const epoch = this.#epoch;
    const isKnown = request.tip === "" || this.#tips[request.afterSequence - 1] === request.tip;
    let sent = isKnown && request.afterSequence <= this.sequence ? request.afterSequence : 0;
    const heard: PartState[] = [];
    for (let sentKeyIds: unknown; epoch === this.#epoch && !signal.aborted; ) {
      if (!this.isSilent) {
        const readMs = performance.now();
        const keyIds = this.#keyIds;
        this.lastMessageMs = readMs;
        const revocations = this.#log.slice(sent);
        sent = this.sequence;
        const whole: WatchRevocationsResponse = {
          revocations,
          sequence: sent,
          tip: this.tip,
          caughtUp: this.isCaughtUp,
          elapsedMs: Math.floor(readMs - beganMs),
          readAt: new Date(Date.now() + this.wallAheadMs),
          keepS: KEEP_S,
          rules: sentKeyIds === keyIds ? undefined : this.#rules(),
          part: undefined,
        };
        sentKeyIds = keyIds;
        if (this.#parts.length === 0) yield whole;
        else yield* this.#divided(whole, heard);
      }
      await this.#changeOrHeartbeat(signal);
    }
  }

  /** A message of each part that is not silent. @param heard what this stream has said of each. */
  *#divided(whole: WatchRevocationsResponse, heard: PartState[]): Iterable<WatchRevocationsResponse> {
    const { elapsedMs, readAt } = whole;
    for (const [number, part] of this.#parts.entries()) {
      if (part.isSilent) continue;
      const slots = Buffer.alloc(512);
      for (const slot of part.slots) slots[slot >>> 3] = (slots[slot >>> 3] ?? 0) | (0x80 >>> (slot & 7));
      const isKnown = slots.equals(heard[number]?.slots ?? Buffer.alloc(0));
      const state = { number, caughtUp: part.isCaughtUp, elapsedMs, readAt, slots };
      heard[number] = state;
      const all = this.#parts.map((_, each) => heard[each]);
      const oldest = all.reduce((a, b) => ((b?.elapsedMs ?? 0) < (a?.elapsedMs ?? 0) ? b : a));
      yield {
        ...whole,
        caughtUp: all.every((each) => each?.caughtUp === true),
        elapsedMs: oldest?.elapsedMs ?? 0,
        readAt: oldest?.readAt,
        part: isKnown ? { ...state, slots: Buffer.alloc(0) } : state,
      };
    }
  }

  #rules() {
    return {
      issuer: ISSUER,
      keys: this.#keyIds.map((keyId) => ({ keyId, algorithm: "EdDSA", publicKey: Buffer.alloc(0) })),
    };
  }

  async #changeOrHeartbeat(signal: AbortSignal): Promise<void> {
    const until = AbortSignal.any([signal, AbortSignal.timeout(HEARTBEAT_MS)]);
    await once(this.#changes, "change", { signal: until }).catch(() => undefined);
  }
}
