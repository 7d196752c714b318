import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import { createTurns, tooManyAtOnce } from "#kit/values/turns.ts";
import { callerIdOf } from "#token-client/principal.ts";
import { isMutating } from "../routing/route-policy.ts";
import { isBrowserSession, keptRefreshTokens } from "./request/browser-session.ts";
import { ClientGone, isClosed } from "./request/completion.ts";
import { writableState } from "./request/request-state.ts";

/** Two hundred at once, each with its entries of the audit log, kept everybody else waiting seven times as long. */
const AT_ONCE = 8;
/** Of one caller: as many refreshes as a network may have under way. */
const MAX_WAITING_FOR_ONE = 300;
/** Of all callers. So many that the limits of networks end a flood of strangers long before, and nobody is refused because of others. */
const MAX_WAITING = 100_000;
const MAX_WAIT_MS = 5_000;

/**
 * The gateway works at a few of one caller's changes to its own routes. The caller's other changes wait here, and hold
 * nothing that other callers need. A caller is a user, or whoever has the refresh token. Calls without either do not wait:
 * under a name that they merely claim, a stranger could make its owner wait.
 */
export interface OwnTurns {
  /** Before the call's own time begins. @throws {DomainError} `service_unavailable`. */
  wait(request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void;
  /** When all work is done. A client that reads its answer slowly must not hold the turn. May be called again. */
  end(request: FastifyRequest): void;
}

export function createOwnTurns(): OwnTurns {
  const turns = createTurns({
    atOnce: AT_ONCE,
    maxWaitingForOne: MAX_WAITING_FOR_ONE,
    maxWaiting: MAX_WAITING,
    maxWaitMs: MAX_WAIT_MS,
    refuse: tooManyAtOnce,
  });
  return {
    wait(request, _reply, done) {
      const key = isMutating(request.method) && request.state.target === null ? callerOf(request) : undefined;
      if (key === undefined) return done();
      turns
        .take(key, MAX_WAIT_MS)
        .then((release) => {
          writableState(request).endTurn = release;
          if (isClosed(request)) throw new ClientGone();
        })
        .then(() => done(), done);
    },
    end(request) {
      const state = writableState(request);
      state.endTurn?.();
      state.endTurn = null;
    },
  };
}

function callerOf(request: FastifyRequest): string | undefined {
  const { access } = request.state;
  if (access !== null) return `user ${callerIdOf(access.principal)}`;
  const { refreshToken } = (request.body ?? {}) as { refreshToken?: unknown };
  const token = isBrowserSession(request) ? keptRefreshTokens(request)[0] : refreshToken;
  // Who has stolen a bound token, without its key, takes no turn of its owner.
  const { jkt = "", x5tS256 = "" } = request.state.call.proven ?? {};
  return typeof token === "string" ? `token ${token} ${jkt} ${x5tS256}` : undefined;
}
