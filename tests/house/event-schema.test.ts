import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { AUDIT_ACTIONS } from "#audit-client/stream/audit-actions.ts";
import { streamEntry } from "#event-service/stream/event.fixture.ts";
import { testEvent, toEvent } from "#event-service/stream/event.ts";
import { actionsEn } from "#web/console/languages/actions-en.ts";

const DOCS = resolve(import.meta.dirname, "..", "..", "docs");
const SOURCE = "https://auth.example.com";
const texts: Readonly<Record<string, string>> = Object.assign({}, ...Object.values(actionsEn.actions));
const actions = Object.values(AUDIT_ACTIONS).flat();
const typeOf = (action: string) => `gatehouse.${action}.v1`;

const actor = z
  .looseObject({
    userId: z.string().optional(),
    role: z.string().optional(),
    sessionId: z.string().optional(),
  })
  .meta({
    description:
      "Who acted: a user's id, or `client:`, `operator:` or `auditor:` and a name. Empty: anonymous.",
  });
const common = {
  actor,
  outcome: z.enum(["success", "failure", "unknown"]),
  resource: z.string().optional().meta({ description: "Id of the thing acted on." }),
  errorCode: z.string().optional().meta({ description: "Of a failure: a code of docs/errors.md." }),
  reason: z.string().optional().meta({ description: "Why, at most 200 characters." }),
  requestId: z.string().optional(),
  traceId: z.string().optional(),
  producer: z.string().meta({ description: "The service that recorded it." }),
  receivedAt: z.iso.datetime().meta({ description: "When the log took it." }),
};
const data = z.discriminatedUnion("kind", [
  z
    .looseObject({ kind: z.literal("event"), ...common })
    .meta({ id: "event", description: "Something that happened." }),
  z
    .looseObject({
      kind: z.literal("call"),
      ...common,
      callId: z.string(),
      method: z.string(),
      route: z.string().meta({ description: "The pattern, not the path." }),
      httpStatus: z.int(),
      latencyUs: z.int().meta({ description: "Microseconds." }),
    })
    .meta({ id: "call", description: "What came of a call of the HTTP API." }),
  z.looseObject({ kind: z.literal("test") }).meta({ id: "test", description: "Asked for by somebody." }),
]);
const event = z
  .looseObject({
    specversion: z.literal("1.0"),
    id: z.uuid().meta({ description: "The same in every attempt. The entry of the audit log has it too." }),
    source: z.url().meta({ description: "The gateway's public origin." }),
    type: z.string().regex(/^gatehouse\.[a-z0-9_.-]+\.v1$/),
    subject: z
      .string()
      .min(1)
      .optional()
      .meta({ description: "Whom or what it is about. Events of one subject come in order." }),
    time: z.iso.datetime(),
    datacontenttype: z.literal("application/json"),
    log: z.int().min(0).max(255).optional().meta({ description: "The number of the audit log." }),
    sequence: z
      .string()
      .regex(/^[1-9]\d*$/)
      .optional()
      .meta({ description: "Its place in that log, from 1." }),
    sequencetype: z.literal("Integer").optional(),
    data,
  })
  .meta({ id: "anyEvent" });

/** A definition for each type, beside the shape that all have. A forwarded call has the type of its route's `action`. */
function schemaOfAll() {
  const { $defs, ...shape } = z.toJSONSchema(event, { io: "output" });
  const types = [...actions]
    .sort()
    .map((action) => [
      typeOf(action),
      { description: texts[action], $ref: "#", properties: { type: { const: typeOf(action) } } },
    ]);
  return {
    ...shape,
    $id: "urn:gatehouse:events:v1",
    title: "Events of Gatehouse",
    $defs: { ...$defs, ...Object.fromEntries(types) },
  };
}

test("docs/events.schema.json is the schema of each type (vitest -u writes it)", async () => {
  await expect(`${JSON.stringify(schemaOfAll(), undefined, 2)}\n`).toMatchFileSnapshot(
    join(DOCS, "events.schema.json"),
  );
});

test.each(["event", "outcome"] as const)("what is sent of an %s fits the schema, full or empty", (kind) => {
  const actor = {
    userId: "operator:ada",
    role: "OPERATOR",
    sessionId: "0199a000-0000-7000-8000-000000000001",
  };
  const full = {
    actor,
    reason: "r",
    errorCode: "forbidden",
    traceId: "t",
    callId: "c",
    method: "POST",
    route: "/x",
    httpStatus: 403,
  };
  for (const given of [{}, { resource: "" }, { action: "payments.bulk-create" }, full]) {
    const body = JSON.parse(toEvent(streamEntry({ kind, ...given }), SOURCE)?.body ?? "null");
    expect(event.strict().safeParse(body)).toMatchObject({ success: true });
  }
});

test("a test event fits the schema", () => {
  const { body } = testEvent({ id: "0199a000-0000-7000-8000-000000000001", source: SOURCE, at: new Date() });
  expect(event.strict().safeParse(JSON.parse(body))).toMatchObject({ success: true });
});

test("an event has no address, network, device or claim of a person", () => {
  const personal = { clientIp: "192.0.2.7", userAgent: "Firefox", claimedEmail: "ada@example.com" };
  const entry = { ...streamEntry(), ...personal, actor: { ...streamEntry().actor, ...personal } };
  const body = toEvent(entry, SOURCE)?.body ?? "";
  for (const value of Object.values(personal)) expect(body).not.toContain(value);
});

test("docs/events.md names every type, with its text", () => {
  const page = readFileSync(join(DOCS, "events.md"), "utf8");
  const missing = actions.filter((action) => !page.includes(`| \`${action}\` | ${texts[action]} |`));
  expect(missing.map((action) => `| \`${action}\` | ${texts[action]} |`)).toEqual([]);
});
