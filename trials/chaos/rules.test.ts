import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Approval, Call, Entry, History, Leaf, Received, ReceivedEvent, Webhook } from "./history.ts";
import { APPROVAL_LIFE_MS, judge, REVOCATION_BOUND_MS, RULES, type RuleName } from "./rules.ts";

const NAMES = Object.keys(RULES) as RuleName[];
const ok = (status = 200) => ({ status, requestId: "request" });
const refused = (code: string, status = 401) => ({ status, code, requestId: "request" });

let calls = 0;
/** @param times from and to, in milliseconds. */
function call(kind: Call["kind"], times: readonly [number, number], fields: Partial<Call> = {}): Call {
  calls += 1;
  return { traceId: `trace ${calls}`, kind, userId: "ada", startMs: times[0], endMs: times[1], ...fields };
}

const leaf = (generation: number, claims = `${generation}`): Leaf => ({
  sessionId: "session",
  generation,
  claims: `claims ${claims}`,
});

let entries = 0;
/** The intent and the outcome of calls, as one gateway records them. */
function audited(...all: Call[]): Entry[] {
  return all.flatMap(({ traceId, answer }) =>
    ["intent", "outcome"].map((kind): Entry => {
      entries += 1;
      const isOutcome = kind === "outcome";
      const status = answer?.status ?? 503;
      return {
        id: `entry ${entries}`,
        log: 0,
        sequence: entries,
        producerId: "producer",
        producerSequence: entries,
        producerName: "gateway",
        kind,
        callId: `call of ${traceId}`,
        traceId,
        requestId: "request",
        outcome: isOutcome ? (status < 400 ? "success" : "failure") : "",
        httpStatus: isOutcome ? status : 0,
      };
    }),
  );
}

function received(of: Call, fields: Partial<Received> = {}): Received {
  return {
    atMs: of.startMs + 1,
    traceId: of.traceId,
    method: of.kind === "read" ? "GET" : "POST",
    userId: "ada",
    sessionId: "session",
    role: "USER",
    ...(of.kind === "read" ? {} : { reference: of.value ?? "" }),
    ...(of.idempotencyKey === undefined ? {} : { idempotencyKey: of.idempotencyKey }),
    ...fields,
  };
}

function approvalOf(reference: string): Approval {
  const transaction = JSON.stringify({ fields: { "/reference": reference } });
  const digest = createHash("sha256").update(transaction).digest("hex");
  return { id: `approval of ${reference}`, userId: "ada", digest, transaction };
}

function history(fields: Partial<History>): History {
  const all = fields.entries ?? [];
  return {
    calls: [],
    received: [],
    owedEvents: [],
    approvals: [],
    usedCodes: new Map(),
    firstNames: new Map(),
    reasons: new Map(),
    webhooks: [],
    numbered: { count: all.length, last: all.length },
    ...fields,
    entries: all,
  };
}

/** It is there since the first call. The last events came again after a crash, then one that the log took later. */
function webhookFor(log: readonly Entry[]): Webhook {
  const events = log
    .filter(({ kind, sequence }) => kind !== "intent" && sequence > 2)
    .map(({ id, sequence }): ReceivedEvent => ({ id, log: 0, sequence, subject: "ada", isSigned: true }));
  const later = { id: "later", log: 0, sequence: 1_000, subject: "ada", isSigned: true };
  return {
    url: "https://shop.example.com",
    after: { 0: 2 },
    received: [...events, ...events.slice(-3), later],
  };
}

/** A life in which every promise is kept. Entries of one producer begin at 1. */
function goodLife() {
  entries = 0;
  const token = { sessionId: "session" };
  const login = call("login", [0, 10], { answer: ok(), given: leaf(1) });
  const pay = call("pay", [20, 30], { ...token, value: "invoice", answer: ok(201) });
  const lost = call("pay", [20, 90], { ...token, value: "lost" });
  const name = call("profile", [40, 50], { ...token, value: "Grace", answer: ok() });
  const first = call("refresh", [60, 70], { presented: leaf(1), given: leaf(2), answer: ok() });
  const again = call("refresh", [61, 80], { presented: leaf(1), given: leaf(2), answer: ok() });
  const second = call("refresh", [90, 95], { presented: leaf(2), given: leaf(3), answer: ok() });
  const approvedPayment = { ...token, value: "large", idempotencyKey: "key" };
  const ask = call("ask", [100, 110], { ...approvedPayment, answer: refused("approval_required", 403) });
  const approve = call("approve", [120, 130], {
    ...token,
    value: "large",
    secrets: ["code 1"],
    answer: ok(),
  });
  const approved = call("approved", [140, 150], { ...approvedPayment, answer: ok(201) });
  const repeatedly = call("approved", [145, 155], { ...approvedPayment, answer: ok(201) });
  const reset = call("reset", [160, 170], { secrets: ["link 1"], answer: ok() });
  const resetAgain = call("reset", [161, 170], {
    secrets: ["link 1"],
    answer: refused("reset_token_invalid", 400),
  });
  const verify = call("verify", [10, 11], { secrets: ["challenge 1", "code 2"], answer: ok() });
  const verifyAgain = call("verify", [10, 12], {
    secrets: ["challenge 1", "code 3"],
    answer: refused("mfa_token_invalid"),
  });
  const comeBack = call("return", [10, 13], { secrets: ["state 1"], answer: ok(302) });
  const comeBackAgain = call("return", [10, 14], {
    secrets: ["state 1"],
    answer: refused("oauth_state_invalid", 400),
  });
  const exchange = call("exchange", [14, 15], { secrets: ["authorization code 1"], answer: ok() });
  const exchangeAgain = call("exchange", [14, 15], {
    secrets: ["authorization code 1"],
    answer: refused("oauth_code_invalid", 400),
  });
  const early = call("read", [170 + REVOCATION_BOUND_MS - 1, 5_000], { ...token, answer: ok() });
  const late = call("read", [9_000, 9_010], { ...token, answer: refused("token_invalid") });
  const away = call("account", [9_000, 9_010], { ...token, answer: refused("service_unavailable", 503) });
  const approval = approvalOf("large");
  const withApproval = { approvalId: approval.id, approvalDigest: approval.digest };
  const changes = {
    login,
    pay,
    lost,
    name,
    first,
    again,
    second,
    ask,
    approve,
    approved,
    repeatedly,
    reset,
    resetAgain,
    verify,
    verifyAgain,
    comeBack,
    comeBackAgain,
    exchange,
    exchangeAgain,
  };
  const log = [
    ...audited(...Object.values(changes)),
    {
      ...(audited(late)[1] as Entry),
      id: "event",
      kind: "event",
      producerId: "other",
      producerName: "token-service",
      callId: "",
    },
  ];
  const made = { ...changes, early, late, away };
  return {
    ...made,
    approval,
    withApproval,
    history: history({
      calls: Object.values(made),
      received: [
        received(pay),
        received(lost),
        received(early),
        received(approved, withApproval),
        received(repeatedly, withApproval),
      ],
      entries: log,
      webhooks: [webhookFor(log)],
      owedEvents: ["event"],
      approvals: [approval],
      usedCodes: new Map([["ada", 2]]),
      firstNames: new Map([["ada", "Grace"]]),
    }),
  };
}

type Life = ReturnType<typeof goodLife>;
type Damage = (life: Life) => Partial<History>;

/** With another call, which is audited as it should be. */
const plus = ({ history: { calls: before, entries: log } }: Life, ...more: Call[]): Partial<History> => ({
  calls: [...before, ...more],
  entries: [...log, ...audited(...more)],
});
/** With one call changed. */
const altered = (
  { history: { calls: before } }: Life,
  one: Call,
  fields: Partial<Call>,
): Partial<History> => ({
  calls: before.map((other) => (other === one ? { ...one, ...fields } : other)),
});
const without = (
  { history: { entries: log } }: Life,
  isGone: (entry: Entry) => boolean,
): Partial<History> => ({
  entries: log.filter((entry) => !isGone(entry)),
});
/** With what the upstream was sent for one call changed. */
const sent = (life: Life, of: Call, fields: Partial<Received>): Partial<History> => ({
  received: life.history.received.map((one) => (one.traceId === of.traceId ? { ...one, ...fields } : one)),
});
/** With what the webhook was sent changed. */
const resent = (
  { history: { webhooks } }: Life,
  change: (received: readonly ReceivedEvent[]) => readonly ReceivedEvent[],
): Partial<History> => ({
  webhooks: webhooks.map((webhook) => ({ ...webhook, received: change(webhook.received) })),
});
const isOutcomeOf =
  ({ traceId }: Call) =>
  (entry: Entry) =>
    entry.traceId === traceId && entry.kind === "outcome";

/** By rule: histories that break it, each in another way. */
const DAMAGES: Record<RuleName, Record<string, Damage>> = {
  "nothing succeeds with a revoked token after the bound": {
    "a read after a reset": (life) =>
      plus(
        life,
        call("read", [170 + REVOCATION_BOUND_MS + 1, 5_000], { sessionId: "session", answer: ok() }),
      ),
    "a read after a logout": (life) =>
      plus(
        life,
        call("logout", [0, 1], { sessionId: "other", answer: ok() }),
        call("read", [REVOCATION_BOUND_MS + 2, 5_000], { sessionId: "other", answer: ok() }),
      ),
    "a read after a reuse": (life) =>
      plus(
        life,
        call("refresh", [0, 1], {
          presented: { ...leaf(1), sessionId: "other" },
          isAttack: true,
          answer: refused("refresh_token_reused"),
        }),
        call("account", [REVOCATION_BOUND_MS + 2, 5_000], { sessionId: "other", answer: ok() }),
      ),
    "a payment that reached the upstream without an answer": (life) => {
      const payment = call("pay", [8_000, 9_000], { sessionId: "session", value: "late" });
      return { ...plus(life, payment), received: [...life.history.received, received(payment)] };
    },
  },
  "nothing refreshes a session that is over": {
    "a refresh right after the reset": (life) =>
      plus(life, call("refresh", [171, 180], { presented: leaf(3), given: leaf(4), answer: ok() })),
  },
  "a session has one live leaf": {
    "two different leaves": (life) => altered(life, life.again, { given: leaf(2, "another") }),
    "the former leaf counts after its successor was exchanged": (life) =>
      plus(life, call("refresh", [96, 99], { presented: leaf(1), given: leaf(2), answer: ok() })),
    "a generation is left out": (life) => altered(life, life.second, { given: leaf(4) }),
    "another session's leaf": (life) =>
      altered(life, life.second, { given: { ...leaf(3), sessionId: "other" } }),
  },
  "a secret for one use counts once": {
    "a challenge, with two codes": (life) => altered(life, life.verifyAgain, { answer: ok() }),
    "an authorization code": (life) => altered(life, life.exchangeAgain, { answer: ok() }),
    "a login at a provider": (life) => altered(life, life.comeBackAgain, { answer: ok(302) }),
    "a link": (life) => altered(life, life.resetAgain, { answer: ok() }),
    "a code for two approvals": (life) =>
      plus(
        life,
        call("approve", [131, 135], { sessionId: "session", value: "b", secrets: ["code 1"], answer: ok() }),
      ),
    "an approval without a key": (life) =>
      plus(
        life,
        ...[1, 2].map(() =>
          call("approved", [1, 2], { sessionId: "session", secrets: ["approval 1"], answer: ok(201) }),
        ),
      ),
  },
  "an upstream learns who the token names": {
    "another user": (life) => sent(life, life.pay, { userId: "mallory" }),
    "another session": (life) => sent(life, life.early, { sessionId: "other" }),
    "another role": (life) => sent(life, life.early, { role: "ADMIN" }),
    "a call of nobody": (life) => sent(life, life.early, { traceId: "unknown" }),
  },
  "a payment reaches the upstream once, or again with its key": {
    "twice without a key": (life) => ({
      received: [...life.history.received, received(life.pay)],
    }),
    "again with another key": (life) => sent(life, life.repeatedly, { idempotencyKey: "another" }),
  },
  "a payment that was answered has reached the upstream": {
    "it was not sent": (life) => ({
      received: life.history.received.filter(({ traceId }) => traceId !== life.pay.traceId),
    }),
  },
  "an approval is of one payment, given before it, and passes once": {
    "it was never given": () => ({ approvals: [] }),
    "of another payment": (life) => ({
      approvals: [{ ...approvalOf("small"), id: life.approval.id }],
    }),
    "of another user": (life) => ({ approvals: [{ ...life.approval, userId: "mallory" }] }),
    "another digest at the upstream": (life) => sent(life, life.approved, { approvalDigest: "0" }),
    "the text is not what was signed": (life) => ({
      approvals: [{ ...life.approval, transaction: `${life.approval.transaction} ` }],
    }),
    "before anybody gave it": (life) => sent(life, life.approved, { atMs: 119 }),
    "a payment without one": (life) => ({
      received: life.history.received.map(({ approvalId: _, ...one }) => one),
    }),
    "an approval where none is needed": (life) => sent(life, life.pay, life.withApproval),
    "for two payments": (life) => sent(life, life.repeatedly, { reference: "another" }),
  },
  "each approval and each login with a code has used up a code": {
    "a code for two": () => ({ approvals: [approvalOf("large"), approvalOf("other")] }),
    "a code for none": () => ({ usedCodes: new Map([["ada", 3]]) }),
    "a login for nothing": () => ({ usedCodes: new Map([["ada", 1]]) }),
  },
  "a change that was answered is audited once": {
    "not at all": (life) => without(life, ({ traceId }) => traceId === life.pay.traceId),
    "without an outcome": (life) => without(life, isOutcomeOf(life.pay)),
    "without an intent": (life) =>
      without(life, ({ traceId, kind }) => traceId === life.login.traceId && kind === "intent"),
    twice: (life) => ({ entries: [...life.history.entries, ...audited(life.reset)] }),
    "as a failure": (life) => ({
      entries: life.history.entries.map((entry) =>
        isOutcomeOf(life.first)(entry) ? { ...entry, outcome: "failure" } : entry,
      ),
    }),
    "with another status": (life) => altered(life, life.pay, { answer: ok(200) }),
    "of another request": (life) =>
      altered(life, life.pay, { answer: { status: 201, requestId: "another" } }),
  },
  "a change that was refused has no entry, or what came of it": {
    "an intent alone": (life) => without(life, isOutcomeOf(life.ask)),
    "another status": (life) => altered(life, life.ask, { answer: refused("approval_required", 409) }),
    "two intents": (life) => ({
      entries: [...life.history.entries, { ...(audited(life.ask)[0] as Entry), id: "second" }],
    }),
  },
  "a call without an answer has at most one intent and one outcome": {
    "two outcomes": (life) => ({
      entries: [...life.history.entries, audited(life.lost)[1] as Entry],
    }),
    "two intents": (life) => ({
      entries: [...life.history.entries, audited(life.lost)[0] as Entry],
    }),
    "a success that nobody has announced": (life) => ({
      entries: life.history.entries
        .filter((entry) => entry.traceId !== life.lost.traceId || entry.kind !== "intent")
        .map((entry) => (isOutcomeOf(life.lost)(entry) ? { ...entry, outcome: "success" } : entry)),
    }),
  },
  "every effect has its intent": {
    "a payment": (life) => without(life, ({ traceId }) => traceId === life.lost.traceId),
    "a name": (life) => without(life, ({ traceId }) => traceId === life.name.traceId),
  },
  "a change of a name that was answered stays": {
    "the name of before": () => ({ firstNames: new Map([["ada", "Ada"]]) }),
    "a name that was overwritten": (life) =>
      plus(life, call("profile", [52, 55], { sessionId: "session", value: "Edith", answer: ok() })),
  },
  "no entry is there twice": {
    "the same id": ({ history: { entries: log } }) => ({ entries: [...log, log[0] as Entry] }),
    "the same number of a producer": ({ history: { entries: log } }) => ({
      entries: [...log, { ...(log[0] as Entry), id: "another", callId: "another" }],
    }),
    "a second intent of a call": ({ history: { entries: log } }) => ({
      entries: [...log, { ...(log[0] as Entry), id: "another", producerId: "another" }],
    }),
  },
  "no gateway has a gap in what it has recorded": {
    "an entry in the middle": ({ history: { entries: log } }) => ({ entries: log.toSpliced(3, 1) }),
    "the first": ({ history: { entries: log } }) => ({ entries: log.slice(1) }),
  },
  "every event that a service owes is in the log, and no other": {
    "one is lost": () => ({ owedEvents: ["event", "lost"] }),
    "one is owed by nobody": () => ({ owedEvents: [] }),
  },
  "every entry has its number, without a gap": {
    "one has none": ({ history: { numbered } }) => ({ numbered: { ...numbered, count: numbered.count - 1 } }),
    "a number is left out": ({ history: { numbered } }) => ({
      numbered: { ...numbered, last: numbered.last + 1 },
    }),
  },
  "a webhook is sent every event of the log, signed, and no other": {
    "one is lost": (life) => resent(life, (events) => events.toSpliced(3, 1)),
    "an event of a service is lost": (life) =>
      resent(life, (events) => events.filter(({ id }) => id !== "event")),
    "the first after it was made": ({ history: { webhooks } }) => ({
      webhooks: webhooks.map((webhook) => ({ ...webhook, after: { 0: 1 } })),
    }),
    "one of another log": (life) =>
      resent(life, (events) => events.map((event, index) => (index === 3 ? { ...event, log: 1 } : event))),
    "an intent": (life) =>
      resent(life, (events) => [...events, { ...(events[0] as ReceivedEvent), id: "entry 1", sequence: 1 }]),
    "another number": (life) =>
      resent(life, ([first, ...rest]) => [...rest, { ...(first as ReceivedEvent), sequence: 3 }]),
    "without a signature": (life) =>
      resent(life, ([first, ...rest]) => [...rest, { ...(first as ReceivedEvent), isSigned: false }]),
  },
  "a webhook is first sent the events of a subject in the order of the log": {
    "one after the next": (life) =>
      resent(life, ([first, second, ...rest]) => [second as ReceivedEvent, first as ReceivedEvent, ...rest]),
    "one after all others": (life) => resent(life, ([first, ...rest]) => [...rest, first as ReceivedEvent]),
  },
  "our own fault is never the client's": {
    "an internal error": (life) => altered(life, life.away, { answer: refused("internal_error", 500) }),
    "a good token is refused": (life) => altered(life, life.name, { answer: refused("token_invalid") }),
    "a good refresh token is refused": (life) =>
      altered(life, life.second, { answer: refused("refresh_token_invalid") }),
    "an honest client counts as a thief": (life) =>
      altered(life, life.second, { answer: refused("refresh_token_reused") }),
    "a thief gets a token": (life) => altered(life, life.second, { isAttack: true }),
    "a link was used by nobody before": (life) =>
      plus(life, call("reset", [1, 2], { secrets: ["link 2"], answer: refused("reset_token_invalid", 400) })),
    "of all who used a link, nobody was heard": (life) =>
      plus(
        life,
        ...[1, 2].map(() =>
          call("reset", [1, 2], { secrets: ["link 2"], answer: refused("reset_token_invalid", 400) }),
        ),
      ),
    "an approval ends too soon": (life) =>
      plus(
        life,
        call("ask", [1, 2], { value: "other", answer: refused("approval_required", 403) }),
        call("approve", [9, APPROVAL_LIFE_MS], { value: "other", answer: refused("approval_expired", 403) }),
      ),
    "an approval was given, and used by nobody": (life) =>
      plus(
        life,
        call("approve", [1, 2], { value: "other", answer: ok() }),
        call("approved", [3, 4], { value: "other", answer: refused("approval_used", 403) }),
      ),
    "a challenge was used by nobody before": (life) =>
      plus(life, call("verify", [1, 2], { secrets: ["challenge 2"], answer: refused("mfa_token_invalid") })),
    "an authorization code was used by nobody before": (life) =>
      plus(
        life,
        call("exchange", [1, 2], {
          secrets: ["authorization code 2"],
          answer: refused("oauth_code_invalid", 400),
        }),
      ),
    "nobody came back from a provider before": (life) =>
      plus(
        life,
        call("return", [1, 2], { secrets: ["state 2"], answer: refused("oauth_state_invalid", 400) }),
      ),
    "an approval was used by nobody before": (life) =>
      plus(life, call("approved", [1, 2], { value: "other", answer: refused("approval_used", 403) })),
    "an approval that was given is asked for again": (life) =>
      altered(life, life.approved, { answer: refused("approval_required", 403) }),
    "a new address counts as registered": (life) =>
      plus(
        life,
        call("register", [1, 2], { value: "a@b", answer: refused("email_already_registered", 409) }),
      ),
    "a good code is refused": (life) => altered(life, life.approve, { answer: refused("mfa_code_invalid") }),
    "a limit that nobody has reached": (life) =>
      altered(life, life.early, { answer: refused("too_many_requests", 429) }),
  },
};

test("a history in which every promise is kept breaks no rule", () => {
  expect(judge(goodLife().history)).toEqual(Object.fromEntries(NAMES.map((name) => [name, []])));
});

describe.each(NAMES)("%s", (name) => {
  test.each(Object.entries(DAMAGES[name]))("is broken by: %s", (_, damage) => {
    const life = goodLife();
    expect(judge({ ...life.history, ...damage(life) })[name]).not.toEqual([]);
  });
});

test("what a client may meet while something is away breaks no rule", () => {
  const life = goodLife();
  const session = { sessionId: "session" };
  const unheard = call("pay", [0, 9], { ...session, value: "a", answer: refused("audit_unavailable", 503) });
  const closed = call("pay", [0, 9], { ...session, value: "b", answer: refused("audit_unavailable", 503) });
  const away = call("read", [0, 9], { ...session, answer: refused("upstream_unavailable", 502) });
  const cut = call("logout", [200, 300], session);
  const overtaken = call("pay", [290, 310], { ...session, value: "c", answer: refused("token_invalid") });
  const [intent, outcome] = audited(closed) as [Entry, Entry];
  const [, refusal] = audited(overtaken) as [Entry, Entry];
  const log = [...life.history.entries, intent, { ...outcome, outcome: "unknown", httpStatus: 0 }, refusal];
  const verdict = judge({
    ...life.history,
    calls: [...life.history.calls, unheard, closed, away, cut, overtaken],
    entries: log.map((entry, index) => ({ ...entry, producerId: `${index}`, producerSequence: 1 })),
    webhooks: [webhookFor(log)],
    numbered: { count: log.length, last: log.length },
  });
  expect(verdict).toEqual(Object.fromEntries(NAMES.map((name) => [name, []])));
});

test.each<[string, Call[]]>([
  [
    "a link that another mail has replaced",
    [
      call("forgot", [0, 9]),
      call("forgot", [9, 10], { answer: ok() }),
      call("reset", [20, 30], { secrets: ["link 2"], answer: refused("reset_token_invalid", 400) }),
    ],
  ],
  [
    "an approval that nobody gave in its time",
    [
      call("ask", [1, 2], { value: "other", answer: refused("approval_required", 403) }),
      call("approve", [9, 2 + APPROVAL_LIFE_MS], {
        value: "other",
        answer: refused("approval_expired", 403),
      }),
    ],
  ],
  [
    "a login at a provider that ended half-way",
    [
      call("return", [0, 9], { secrets: ["state 2"], answer: refused("service_unavailable", 302) }),
      call("return", [20, 30], { secrets: ["state 2"], answer: refused("oauth_state_invalid", 400) }),
    ],
  ],
])("%s may be refused", (_what, more) => {
  const life = goodLife();
  const verdict = judge({ ...life.history, ...plus(life, ...more) });
  expect(verdict["our own fault is never the client's"]).toEqual([]);
});
