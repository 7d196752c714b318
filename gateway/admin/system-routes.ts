import { z } from "zod";
import { redisScript } from "#kit/redis/redis-script.ts";
import type { SharedRedis } from "#kit/redis/shared-redis.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { SigningKeyState } from "#proto/gatehouse/token/v1/key_service.ts";
import { timeField } from "../auth/answer-fields.ts";
import type { Backends } from "../backends/backends.ts";
import { success } from "../edge/answers/envelope.ts";
import type { NoteReading } from "../edge/audit.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { intLike, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import type { AdminPolicy } from "../routing/route-policy.ts";

/** Of the call's second: a service that is away must not keep the answer about the others. */
const PROBE_BUDGET_MS = 700;

const STATES = {
  next: SigningKeyState.NEXT,
  active: SigningKeyState.ACTIVE,
  retired: SigningKeyState.RETIRED,
  revoked: SigningKeyState.REVOKED,
} as const;
const keyState = z.enum(["next", "active", "retired", "revoked", "unknown"]);

const keyAnswer = z
  .strictObject({
    id: textLike("kXq0Zr5q9iY").meta({ description: "`kid` of the tokens that it signs." }),
    algorithm: textLike("EdDSA"),
    state: keyState.meta({ description: "`unknown`: a state of a later version." }),
    createdAt: timeField,
    activatedAt: timeField.nullable(),
    retiredAt: timeField.nullable(),
  })
  .meta({ id: "SigningKey", description: "Of access and refresh tokens, without its private part." });

const serviceAnswer = z.strictObject({
  name: z.enum(["identity-service", "token-service", "audit-service", "event-service", "redis"]),
  ready: z
    .boolean()
    .meta({ description: "Whether it answered this gateway; a service, a call that needs its database." }),
  latencyMs: intLike(4, "How long that took."),
});

type ServiceName = z.output<typeof serviceAnswer>["name"];

export interface SystemDeps
  extends Pick<Backends, "keys" | "users" | "sessions" | "auditQuery" | "webhooks"> {
  noteReading: NoteReading;
  adminPolicy: AdminPolicy;
  /** Undefined: this gateway uses none. */
  redis?: Pick<SharedRedis, "ask"> | undefined;
}

export function registerSystemRoutes(
  app: GatewayApp,
  { keys, users, sessions, auditQuery, webhooks, noteReading, adminPolicy, redis }: SystemDeps,
): void {
  const policy = adminPolicy("system:read");
  const route = routeIn(app, "Administration");

  route("listSigningKeys", "GET", "/admin/keys", {
    summary: "List the signing keys",
    policy,
    answers: answersWith("The keys, newest first.", z.strictObject({ keys: z.array(keyAnswer) })),
    codes: ["audit_unavailable"],
    handler: async (request) => {
      await noteReading(request, { action: "key.listed" });
      const found = await keys.listSigningKeys({}, request.state.call);
      const list = found.keys.map(({ keyId: id, algorithm, state, createdAt, activatedAt, retiredAt }) => {
        if (createdAt === undefined) throw new Error("token-service sent a key without a time");
        return {
          id,
          algorithm,
          state: keyState.options.find((name) => name !== "unknown" && STATES[name] === state) ?? "unknown",
          createdAt: createdAt.toISOString(),
          activatedAt: activatedAt?.toISOString() ?? null,
          retiredAt: retiredAt?.toISOString() ?? null,
        };
      });
      return success({ keys: list }, "The signing keys.");
    },
  });

  /** Reads something that is there or not: `not_found` is an answer. */
  const probes: [ServiceName, (context: CallContext, userId: string) => Promise<unknown>][] = [
    ["identity-service", (context, userId) => users.getManagedUser({ userId }, context)],
    ["token-service", (context, userId) => sessions.listSessions({ userId }, context)],
    ["audit-service", (context) => auditQuery.getCheckpoint({ atLeastSize: 0, log: 0 }, context)],
    ["event-service", (context) => webhooks.listEndpoints({ cursor: "", limit: 1 }, context)],
  ];
  if (redis !== undefined) probes.push(["redis", () => askRedis(redis)]);

  route("getHealth", "GET", "/admin/health", {
    summary: "Ask each service whether it answers",
    description:
      "As this gateway sees them: one replica of each, at this moment, and Redis if it uses it. Always 200; what is not ready is in the answer.",
    policy,
    answers: answersWith("Each service.", z.strictObject({ services: z.array(serviceAnswer) })),
    handler: async (request) => {
      const { call } = request.state;
      const context = { ...call, deadlineMs: Math.min(call.deadlineMs, Date.now() + PROBE_BUDGET_MS) };
      const services = await Promise.all(
        probes.map(async ([name, probe]) => {
          const startedMs = performance.now();
          const ready = await answers(probe(context, NOBODY));
          return { name, ready, latencyMs: Math.round(performance.now() - startedMs) };
        }),
      );
      return success({ services }, "The services, as this gateway sees them.");
    },
  });
}

/** No user has it (RFC 9562 §5.9). */
const NOBODY = "00000000-0000-0000-0000-000000000000";

/** By a script, as the limits are counted: a narrow ACL may refuse PING. */
const oneOf = redisScript("return 1");

async function askRedis(redis: Pick<SharedRedis, "ask">): Promise<void> {
  const answer = await redis.ask((client) => oneOf(client, [], []));
  if (answer === undefined) throw new DomainError("service_unavailable");
}

async function answers(call: Promise<unknown>): Promise<boolean> {
  try {
    await call;
    return true;
  } catch (error) {
    return error instanceof DomainError && !UNAVAILABLE.has(error.code);
  }
}

const UNAVAILABLE: ReadonlySet<string> = new Set(["service_unavailable", "internal_error"]);
