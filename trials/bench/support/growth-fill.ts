import { createHash } from "node:crypto";
import { growTree, hashRange, subtreesOf, type TreeNode } from "#audit-service/log/merkle-tree.ts";
import type { Sql } from "#kit/database/postgres.ts";
import { ORIGIN, signer } from "#tests/support/system/audit-sequencer.ts";
import type { startWorkbench } from "./workbench.ts";

type Workbench = Awaited<ReturnType<typeof startWorkbench>>;

export interface Size {
  users: number;
  entries: number;
}

/** As many users are active at every size: what a server has in memory depends on them. */
export const ACTIVE = 200;
export const KEY_DAYS_TOO_OLD = 12;
/** Its password is never compared. */
const HASH =
  "$argon2id$v=19$m=19456,t=2,p=1$hB/jS8CLhskxE0dxss0JDQ$/9I9KfHx+8Q74XAIrrNl67neucZQTAjKGfnqqnpmYZs";
const CHUNK = 250_000;
const CONNECTIONS = 3;
const SESSIONS_OF_USER = 2;
const ENTRIES_OF_ACTOR = 3;
export const CLAIM_EVERY = 11;
/** Picks from the log, evenly. */
export const DAYS = 360;
const LEAF = createHash("sha256").update("leaf").digest();

export const plantedId = (n: number) => `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
/** Numbers of the active users, spread over all. */
export const activeNumber = (k: number, { users }: Size) => 1 + (k % ACTIVE) * Math.floor(users / ACTIVE);

/** Who acts: not every user. */
export const actorsOf = ({ entries }: Pick<Size, "entries">) => Math.floor(entries / ENTRIES_OF_ACTOR);

const id = (n: string) => `('00000000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`;
const SYLLABLES =
  "'{an,be,ca,do,el,fi,go,ha,is,jo,ka,li,mo,na,ol,pe,qu,ro,sa,te,ul,vi,wa,xe,ya,zo,mar,len,tor,sch,ber,ing,son,ov,ez,ski,nen,ard,eau,ich}'::text[]";
const syllable = (divisor: number) => `(${SYLLABLES})[1 + (r / ${divisor} % 40)::int]`;
const FIRST = `initcap(${syllable(1)} || ${syllable(40)})`;
const LAST = `initcap(${syllable(1_600)} || ${syllable(64_000)} || ${syllable(2_560_000)})`;
/** In the order of time, and each user as often as any other. */
const userOf = (n: string, users: number) => id(`1 + (${n}::bigint * 7919) % ${users}`);

export async function fill(workbench: Workbench, size: Size, say: (text: string) => void): Promise<void> {
  const identity = workbench.connectOwner("identity-service");
  const token = workbench.connectOwner("token-service");
  const audit = workbench.connectOwner("audit-service");
  await fillIdentity({ sql: identity, say }, size);
  await fillToken({ sql: token, say }, size);
  await fillAudit({ sql: audit, say }, size);
  await Promise.all([identity.end(), token.end(), audit.end()]);
}

interface Target {
  sql: Sql;
  say: (text: string) => void;
}

async function fillIdentity(target: Target, { users }: Size): Promise<void> {
  const { sql } = target;
  await withoutIndexes(target, "users", () =>
    inChunks(
      target,
      "users",
      users,
      (from, to) => `
      insert into users (id, email, first_name, last_name, role, status, password_hash, email_verified, first_login_at, created_at, updated_at)
      select ${id("n")}, lower(${FIRST} || '.' || ${LAST} || n || '@mail' || n % 50 || '.example'), ${FIRST}, ${LAST},
        case when n <= 5 then 'ADMIN' when n <= 50 then 'AUDITOR' else 'USER' end, case when n % 1000 = 500 then 'disabled' else 'active' end,
        '${HASH}', true, now(),
        now() - (${users} - n) * interval '1 second', now()
      from (select n, n::bigint * 48271 % 2147483647 as r from generate_series(${from}, ${to}) as n) as numbers`,
    ),
  );
  await withoutIndexes(target, "totp_credentials", () =>
    inChunks(
      target,
      "totp_credentials",
      users / 10,
      (from, to) => `
      insert into totp_credentials (user_id, secret_encrypted, key_id, created_at, confirmed_at)
      select ${id("n * 10")}, decode(repeat('00', 48), 'hex'), repeat('c', 16), now(), now()
      from generate_series(${from}, ${to}) as n`,
    ),
  );
  await withoutIndexes(target, "known_networks", () =>
    inChunks(
      target,
      "known_networks",
      users / 5,
      (from, to) => `
      insert into known_networks (digest, network_digest, user_id, password_epoch, seen_at)
      select decode(md5('d' || n), 'hex'), decode(md5('n' || n / 3), 'hex'), ${id("n * 5")}, 0,
        now() - interval '30 days' * (1 - n::float8 / ${users / 5})
      from generate_series(${from}, ${to}) as n`,
    ),
  );
  await sql.unsafe("vacuum analyze");
}

async function fillToken(target: Target, { users }: Size): Promise<void> {
  const sessions = users * SESSIONS_OF_USER;
  await withoutIndexes(target, "sessions", () =>
    inChunks(
      target,
      "sessions",
      sessions,
      (from, to) => `
      insert into sessions (id, user_id, role, amr, acr, auth_time, token_secret, generation, rotated_at, created_at, last_used_at, last_signed_at,
        idle_end, absolute_end, revoked_at, revoked_reason, ip, user_agent)
      select ${id("n")}, ${userOf("n", users)}, 'USER', '{pwd}', 1, at, sha256(n::text::bytea), 1, at, at, at, at, at + interval '14 days',
        at + interval '30 days', case when n % 20 = 0 then now() end, case when n % 20 = 0 then 'logout' end, '203.0.113.' || n % 256,
        'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36'
      from (select n, now() - interval '7 days' * (1 - n::float8 / ${sessions}) as at from generate_series(${from}, ${to}) as n) as numbers`,
    ),
  );
  await target.sql.unsafe("vacuum analyze");
}

async function fillAudit(target: Target, { entries }: Size): Promise<void> {
  const { sql } = target;
  const at = `date_trunc('milliseconds', now() - interval '${DAYS} days' * (1 - n::float8 / ${entries}))`;
  await sql.unsafe(`
    set role gatehouse_audit_owner;
    select create_log_partition(month::date) from generate_series(now() - interval '12 months', now(), '1 month') as month;
    reset role`);
  await withoutIndexes(target, "log_entries", () =>
    inChunks(
      target,
      "log_entries",
      entries,
      (from, to) => `
      insert into log_entries
      select n, ${at}, gen_random_uuid(), ${id("7")}, n, 'gateway', ${at}, 'outcome', 'call-' || n, ${userOf("n", actorsOf({ entries }))}::text, 'USER',
        'session', '', '203.0.113.7', 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)', 'POST', '/payments',
        'resource-' || n / 3, case when n % ${CLAIM_EVERY} = 1 then 'auth.login' when n % 100 = 7 then 'rare' else 'action-' || n % 37 end,
        'request-' || n, '', case when n % 3 = 1 then 'failure' else 'success' end, '', '', 201, 1500
      from generate_series(${from}, ${to}) as n`,
    ),
  );
  const [first] = await sql<{ name: string }[]>`
    select inhrelid::regclass::text as name from pg_inherits where inhparent = 'leaves'::regclass order by inhrelid limit 1`;
  const leaves = `${first?.name}`;
  await sql.unsafe(`alter table ${leaves} disable trigger all`);
  await inChunks(
    target,
    leaves,
    entries,
    (from, to) => `
    insert into ${leaves} (sequence, position, received_at, leaf_hash, chain_hash)
    select n, n, ${at}, '\\x${LEAF.toString("hex")}', '\\x${LEAF.toString("hex")}' from generate_series(${from}, ${to}) as n`,
  );
  await sql.unsafe(`alter table ${leaves} enable always trigger append_only`);
  await sql.unsafe(`insert into log_months select date_trunc('month', received_at at time zone 'UTC')::date, min(sequence), max(sequence)
    from leaves group by 1`);
  await fillTree(sql, entries);
  await withoutIndexes(target, "claimed_emails", () =>
    inChunks(
      target,
      "claimed_emails",
      entries / CLAIM_EVERY,
      (from, to) => `
      insert into claimed_emails (position, received_at, salt, address)
      select n, ${at}, decode(repeat('00', 32), 'hex'), 'someone.' || n || '@mail.example'
      from (select c * ${CLAIM_EVERY} as n from generate_series(${from}, ${to}) as c) as numbers`,
    ),
  );
  for (let ago = 1; ago <= 31 + KEY_DAYS_TOO_OLD; ago += 1) await fillKeysOfDay(sql, ago, entries / DAYS);
  await sql.unsafe(`
    select setval('entry_positions', ${entries});
    insert into stored_keys_default (position, day, producer_name, producer_id, producer_sequence, id, received_at)
    select n, '2020-01-01', 'gateway', gen_random_uuid(), n, gen_random_uuid(),
      case when n <= 10000 then now() - interval '40 days' else now() end
    from generate_series(1, ${Math.floor(10_000 + entries / 1_000)}) as n;
    update login_count_progress set sequence = ${entries};
    insert into producers select gen_random_uuid(), now() from generate_series(1, 50)`);
  await sql.unsafe("vacuum analyze");
}

async function fillKeysOfDay(sql: Sql, ago: number, rows: number): Promise<void> {
  const dayOf = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
  const name = `stored_keys_${dayOf(ago).replaceAll("-", "_")}`;
  await sql.unsafe(`
    set role gatehouse_audit_owner;
    create table ${name} partition of stored_keys for values from ('${dayOf(ago)}') to ('${dayOf(ago - 1)}');
    alter table ${name} disable trigger all;
    insert into ${name} (position, day, producer_name, producer_id, producer_sequence, id)
    select n, '${dayOf(ago)}', 'gateway', gen_random_uuid(), n, gen_random_uuid() from generate_series(1, ${Math.floor(rows)}) as n;
    reset role`);
}

/** All leaves are equal, and so are all subtrees of a level. */
async function fillTree(sql: Sql, entries: number): Promise<void> {
  for (let level = 8; 2 ** level <= entries; level += 8) {
    await sql.unsafe(`insert into subtrees (level, index, hash)
      select ${level}, n, '\\x${perfect(level).toString("hex")}' from generate_series(0, ${Math.floor(entries / 2 ** level) - 1}) as n`);
  }
  const nodes = subtreesOf({ begin: 0, end: entries });
  const root = growTree(
    entries,
    nodes.map(({ level }: TreeNode) => perfect(level)),
  ).root();
  await sql.unsafe(`
    insert into checkpoints (origin, size, root_hash, note, floor_position, created_at)
    select '${ORIGIN}', n * 100, sha256('root'), 'note', n * 100, now() - (${entries} / 100 - n) * interval '1 second' - interval '1 hour'
    from generate_series(1, ${Math.floor((entries - 1) / 100)}) as n`);
  await sql`insert into checkpoints (origin, size, root_hash, note, floor_position) values
    (${ORIGIN}, ${entries}, ${root}, ${signer.checkpoint({ size: entries, root }, new Date())}, ${entries})`;
}

function perfect(level: number): Buffer {
  if (level === 0) return LEAF;
  const half = perfect(level - 1);
  return hashRange([half, half]);
}

async function inChunks(
  { sql, say }: Target,
  table: string,
  rows: number,
  statement: (from: number, to: number) => string,
): Promise<void> {
  const startedMs = performance.now();
  let next = 1;
  let done = 0;
  let loggedMs = startedMs;
  const work = async () => {
    while (next <= rows) {
      const from = next;
      next = Math.min(from + CHUNK, Math.floor(rows) + 1);
      const to = next - 1;
      await sql.unsafe(`begin; set local session_replication_role = replica; ${statement(from, to)}; commit`);
      done += to - from + 1;
      if (performance.now() - loggedMs < 15_000) continue;
      loggedMs = performance.now();
      say(
        `${table}: ${done} of ${Math.floor(rows)} rows after ${((loggedMs - startedMs) / 1_000).toFixed(0)} s`,
      );
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
}

/** An index is made several times faster of what is there than row by row. Those of constraints stay. */
async function withoutIndexes({ sql, say }: Target, table: string, work: () => Promise<void>): Promise<void> {
  const indexes = await sql<{ name: string; definition: string }[]>`
    select indexname as name, indexdef as definition from pg_indexes
    where tablename = ${table} and not exists (select from pg_constraint where conname = indexname)`;
  for (const { name } of indexes) await sql.unsafe(`drop index ${name}`);
  await work();
  const startedMs = performance.now();
  const waiting = [...indexes];
  const make = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      // On the partitions too: so those that are made later have them.
      await sql.unsafe(next.definition.replace(" ON ONLY ", " ON "));
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, make));
  const seconds = (performance.now() - startedMs) / 1_000;
  if (seconds > 5) say(`${table}: ${indexes.length} indexes in ${seconds.toFixed(0)} s`);
}
