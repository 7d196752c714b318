/**
 * Refreshes, logins and ends of sessions with 1, 2 and 4 parts of the users, each a PostgreSQL of its own; moves of slots beside
 * refreshes; and a part that dies.
 *
 *   npm run trial -- parts
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { transaction } from "#kit/database/postgres.ts";
import { startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { slotOfSession } from "#token-client/session-slot.ts";
import { moveSlot } from "#token-service/parts/move-slots.ts";
import type { SessionPart } from "#token-service/parts/open-part.ts";
import { appendRevocations } from "#token-service/revocations/revocation-store.ts";
import { newSessionId, slotOfUser } from "#token-service/rows/user-slot.ts";
import { issueSession } from "#token-service/sessions/issue-session.ts";
import { refreshSession } from "#token-service/sessions/refresh-session.ts";
import { runMany, serverCpuUs, startWorkbench } from "./support/workbench.ts";

const PARTS = [1, 2, 4];
const ROUNDS = 3;
const USERS = 2_000;
const OPERATIONS = 4_000;
/** For each part: commits that wait for the disk together cost less. */
const IN_PARALLEL = 8;
const REVOCATIONS = 100_000;
/** In a transaction. */
const REVOKED_AT_ONCE = 20;
const MOVED_SLOTS = 64;
const SESSIONS_OF_SLOT = 2_000;
const ORIGIN = { ip: "192.0.2.1", userAgent: "bench", requestId: "", traceId: "" };

type Leaf = { sessionId: string; refreshToken: string };
type Deps = TokenReplica["deps"];

const benches = await Promise.all(Array.from({ length: Math.max(...PARTS) }, () => startWorkbench()));
const owners = await Promise.all(benches.map((bench) => bench.connectOwner("token-service")));
const connections = await Promise.all(benches.map((bench) => bench.connect("token-service", 10)));
for (const [number, owner] of owners.entries()) await owner`update part set number = ${number}`;

const at = <T>({ parts, ...deps }: Deps, slot: number, work: (own: Deps) => Promise<T>) =>
  parts.at(slot, (part) => work({ ...deps, ...part, parts }));
const logIn = (deps: Deps, userId: string) =>
  at(deps, slotOfUser(userId), (own) =>
    issueSession(own, { userId, role: "USER", amr: ["pwd"], acr: 1, authTime: new Date(), ...ORIGIN }),
  );
async function refresh(deps: Deps, leaf: Leaf): Promise<void> {
  const { refreshToken } = await at(deps, slotOfSession(leaf.sessionId), (own) =>
    refreshSession(own, leaf.refreshToken, ORIGIN),
  );
  leaf.refreshToken = refreshToken;
}

/** @returns operations a second, and CPU of each PostgreSQL for one, in µs. */
async function measure(parts: number, count: number, work: (index: number) => Promise<unknown>) {
  const before = await Promise.all(benches.map(({ folder }) => serverCpuUs(join(folder, "postgres"))));
  const seconds = await runMany(count, parts * IN_PARALLEL, work);
  const after = await Promise.all(benches.map(({ folder }) => serverCpuUs(join(folder, "postgres"))));
  const cpu = after.map((us, index) => (us - (before[index] ?? 0)) / count);
  return { rate: count / seconds, sum: cpu.reduce((sum, us) => sum + us, 0), most: Math.max(...cpu) };
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

for (const count of PARTS) {
  for (const [number, owner] of owners.entries()) {
    await owner`truncate sessions, leaving_sessions`;
    await owner`update slots set state = case when slot % ${count} = ${number} then 'here' else 'away' end, epoch = 0`;
    await owner`update part set changes = changes + 1`;
  }
  const [first, ...otherParts] = connections.slice(0, count);
  if (first === undefined) throw new Error("no database");
  const replica = await startTokenReplica(first, { otherParts });
  const { deps } = replica;
  const leaves: Leaf[] = [];
  const results: Record<string, Awaited<ReturnType<typeof measure>>[]> = {
    login: [],
    refresh: [],
    "revocation (in 20s)": [],
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    results.login?.push(
      await measure(count, USERS, async () => void leaves.push(await logIn(deps, randomUUID()))),
    );
    results.refresh?.push(
      await measure(count, OPERATIONS, (index) => refresh(deps, leaves[index % leaves.length] as Leaf)),
    );
    const ends = await measure(count, REVOCATIONS / REVOKED_AT_ONCE / ROUNDS, async () => {
      const targets = Array.from({ length: REVOKED_AT_ONCE }, () => ({
        sessionId: newSessionId(randomUUID()),
      }));
      const part = deps.parts.all[Math.floor(Math.random() * count)] as SessionPart;
      await transaction(part.sql, (tx) => appendRevocations(tx, targets, 900));
    });
    results["revocation (in 20s)"]?.push({ ...ends, rate: ends.rate * REVOKED_AT_ONCE });
  }
  for (const [name, rounds] of Object.entries(results)) {
    const [rate, sum, most] = (["rate", "sum", "most"] as const).map((key) =>
      median(rounds.map((each) => each[key])),
    );
    console.log(
      `${count} parts, ${name}: ${rate?.toFixed(0)}/s here, PostgreSQL ${sum?.toFixed(0)} µs, of it the busiest ${most?.toFixed(0)}`,
    );
  }
  await replica.stop();
}

await movesBesideRefreshes();
await Promise.all([...owners, ...connections].map((sql) => sql.end({ timeout: 1 }).catch(() => undefined)));
await Promise.all(benches.map((bench) => bench.stop().catch(() => undefined)));

/** Four parts, of which one has slots of many sessions. */
async function movesBesideRefreshes(): Promise<void> {
  const [first, ...otherParts] = connections;
  const owner = owners[0];
  if (first === undefined || owner === undefined) throw new Error("no database");
  const replica = await startTokenReplica(first, { otherParts });
  const { deps } = replica;
  const leaves: Leaf[] = await Promise.all(Array.from({ length: 200 }, () => logIn(deps, randomUUID())));
  const slots = [...new Set(leaves.map(({ sessionId }) => slotOfSession(sessionId)))]
    .filter((slot) => slot % 4 === 0)
    .slice(0, MOVED_SLOTS);
  for (const slot of slots) {
    const end = slot.toString(16).padStart(3, "0");
    await owner`
      insert into sessions select copy.*
      from (select to_jsonb(s) as session from sessions as s limit 1) as one, generate_series(1, ${SESSIONS_OF_SLOT}::integer) as n,
        jsonb_populate_record(null::sessions, one.session || jsonb_build_object(
          'id', left(uuidv7()::text, 33) || ${end}::text, 'user_id', uuidv7(), 'generation', n)) as copy`;
  }
  let isMoving = true;
  const tookMs: number[] = [];
  const using = Promise.all(
    leaves.slice(0, 8).map(async (_, offset) => {
      for (let index = offset; isMoving; index += 8) {
        const startedMs = performance.now();
        await refresh(deps, leaves[index % leaves.length] as Leaf);
        tookMs.push(performance.now() - startedMs);
      }
    }),
  );
  const startedMs = performance.now();
  const moved = [];
  for (const slot of slots) moved.push(await moveSlot(deps, slot, deps.parts.all[1]));
  const seconds = (performance.now() - startedMs) / 1_000;
  isMoving = false;
  await using;
  const sessions = moved.reduce((sum, each) => sum + each.sessions, 0);
  const away = moved.map(({ awayMs }) => awayMs);
  console.log(
    `moved ${slots.length} slots with ${sessions} sessions in ${seconds.toFixed(1)} s, away ${median(away).toFixed(0)} ms, ` +
      `at most ${Math.max(...away).toFixed(0)}; beside it ${tookMs.length} refreshes, all answered, the slowest in ${Math.max(...tookMs).toFixed(0)} ms`,
  );
  await benches[3]?.stop();
  const results = await Promise.allSettled(leaves.map((leaf) => refresh(deps, leaf)));
  const own = leaves.filter(({ sessionId }) => slotOfSession(sessionId) % 4 === 3).length;
  const refused = results.filter(({ status }) => status === "rejected").length;
  console.log(
    `one of four parts is dead: ${refused} of ${leaves.length} refreshes refused, ${own} of them of its users`,
  );
  await replica.stop();
}
