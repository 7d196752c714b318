/**
 * Bytes a row takes in PostgreSQL, indexes included, for capacity planning; and how long `sessions revoke-all` takes.
 *
 *   npm run trial -- row-sizes
 */
import { startTokenReplica } from "#tests/support/system/token-service.ts";
import { revokeAllSessions, type SweepPosition } from "#token-service/sessions/revoke-all-sessions.ts";
import { startWorkbench } from "./support/workbench.ts";

const ROWS = 100_000;

const workbench = await startWorkbench();
const identity = await workbench.connect("identity-service");
const token = await workbench.connect("token-service");

async function measure(sql: typeof identity, table: string, fill: () => Promise<unknown>): Promise<void> {
  const size = async () => {
    const [row] = await sql<{ heap: string; all: string }[]>`
      select pg_relation_size(${table}::regclass) as heap, pg_total_relation_size(${table}::regclass) as all`;
    return { heap: Number(row?.heap), all: Number(row?.all) };
  };
  const before = await size();
  await fill();
  const after = await size();
  const [heap, all] = [(after.heap - before.heap) / ROWS, (after.all - before.all) / ROWS];
  console.log(`${table}: ${heap.toFixed(0)} B a row, ${all.toFixed(0)} B with indexes`);
}

await measure(
  identity,
  "users",
  () => identity`
    insert into users (id, email, first_name, last_name, role, status, password_hash, email_verified, created_at, updated_at)
    select uuidv7(), 'someone.' || n || '@mail-provider.example', 'Firstname' || n % 997, 'Lastname' || n % 9973, 'USER',
           'active', '$argon2id$v=19$m=19456,t=2,p=1$' || repeat('s', 22) || '$' || repeat('h', 43), true, now(), now()
    from generate_series(1, ${ROWS}::integer) as n`,
);
const fillSessions = () => token`
  insert into sessions (id, user_id, role, amr, acr, auth_time, token_secret, generation, rotated_at, created_at, last_used_at,
                        last_signed_at, idle_end, absolute_end, ip, user_agent)
  select uuidv7(), gen_random_uuid(), 'USER', '{pwd}', 1, at, sha256(n::text::bytea), 1, at, at, at, at, at + interval '7 days',
         at + interval '30 days', '203.0.113.' || n % 256,
         'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36'
  from generate_series(1, ${ROWS}::integer) as n, (select now() - interval '1 hour' as at) as begun`;
await measure(token, "sessions", fillSessions);
await measure(
  token,
  "revocations",
  () => token`
    insert into revocations (sequence, session_id, expires_at)
    select n, gen_random_uuid(), now() + interval '910 s' from generate_series(1, ${ROWS}::integer) as n`,
);
await token`delete from revocations`;

const replica = await startTokenReplica(token);
const startedMs = performance.now();
let [ended, cursor]: [number, SweepPosition | undefined] = [0, undefined];
do {
  const request = { issuedBefore: new Date(), reason: "bench", cursor };
  const part = await revokeAllSessions(replica.deps, request, { requestId: "", traceId: "" });
  ended += part.ended;
  cursor = part.next;
} while (cursor !== undefined);
const seconds = (performance.now() - startedMs) / 1_000;
console.log(
  `sessions revoke-all: ${ended} in ${seconds.toFixed(1)} s, ${(ended / seconds).toFixed(0)} a second`,
);

replica.stop();
await Promise.all([identity.end(), token.end()]);
await workbench.stop();
