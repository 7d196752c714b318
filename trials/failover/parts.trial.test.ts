import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { databaseOf } from "#deploy/service-databases.ts";
import { type CrashingSystem, startCrashingSystem } from "#tests/support/system/crashing-system.ts";
import { SLOTS } from "#token-client/session-slot.ts";
import { slotOfUser } from "#token-service/rows/user-slot.ts";
import { UNLIMITED, UNTHROTTLED } from "../chaos/system-under-load.ts";
import { say, seconds, seededRandom } from "../support.ts";
import { FailoverLoad, isAcknowledged, startUpstream } from "./failover-load.ts";
import { missingForCluster, type PatroniCluster, startPatroniCluster } from "./patroni-cluster.ts";
import { FAULTS, type Fault, failOver } from "./round.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const ROUNDS = Number(process.env.FAILOVER_ROUNDS ?? 8);
const SEED = Number(process.env.FAILOVER_SEED ?? Date.now() % 1_000_000);
/** From the election of the part's new primary to the end of the last refused call of its users. */
const LIMIT_MS = 5_000;
const LIVES = 12;
/** Changes of passwords are two hashes, of which a busy machine makes few. */
const CALL_BUDGET_MS = 4_000;
const ROUND_LIMIT_MS = 300_000;
const TOKEN = databaseOf("token-service");
/** Part 1 has those below, part 0 the others. */
const FIRST_OF_OTHERS = SLOTS / 2;
const random = seededRandom(SEED);

const missing = missingForCluster();
if (missing !== undefined) say(`Fail-over of a part skipped: ${missing}`);

describe.skipIf(missing !== undefined)("half of the users in a part under Patroni", () => {
  let cluster: PatroniCluster;
  let system: CrashingSystem;
  let load: FailoverLoad;
  let upstream: Awaited<ReturnType<typeof startUpstream>>;

  beforeAll(async () => {
    say(`fail-over of a part: seed ${SEED}, ${ROUNDS} rounds (FAILOVER_SEED, FAILOVER_ROUNDS)`);
    const made = await startUpstream();
    upstream = made;
    [cluster, system] = await Promise.all([
      startPatroniCluster(),
      startCrashingSystem(
        ({ name }) =>
          name === "gateway"
            ? { RATE_LIMITS: UNLIMITED, CALL_BUDGET_MS: String(CALL_BUDGET_MS) }
            : UNTHROTTLED,
        {
          files: () => ({ "routes.yaml": made.routes }),
        },
      ),
    ]);
    await cluster.whole();
    const file = await addPart();
    system.configure("token-service", { PARTS_FILE: file });
    await system.kill("token-service");
    await system.start("token-service");
    await gatehouse("parts", "move", "0", "1", "--slots", String(FIRST_OF_OTHERS));
    load = new FailoverLoad({
      url: system.url,
      random,
      lives: LIVES,
      paid: made.paid,
      // Half of the lives are of users of the other part, so that they do not all wait for this one.
      wants: (userId, life) => life < LIVES / 2 || slotOfUser(userId) >= FIRST_OF_OTHERS,
      proveAddress: async () => undefined,
    });
  }, ROUND_LIMIT_MS);

  afterAll(async () => {
    await load?.close();
    await system?.remove();
    await cluster?.remove();
    upstream?.close();
  });

  /** As an operator does: a database with the roles and passwords of the first, on another server. @returns the parts file. */
  async function addPart(): Promise<string> {
    const admin = connectTo({ host: "127.0.0.1", port: cluster.port, ...cluster.superuser }, "postgres");
    try {
      for (const [role, file] of [
        [TOKEN.ownerRole, "db-token-owner-password"],
        [TOKEN.serviceRole, "db-token-password"],
      ] as const) {
        const password = (await readFile(join(system.home, "secrets", file), "utf8")).trim();
        await admin.unsafe(`create role ${role} login password '${password}'`);
      }
      await admin.unsafe(`create database token owner ${TOKEN.ownerRole}`);
    } finally {
      await admin.end({ timeout: 1 });
    }
    const file = join(system.home, "parts.yaml");
    await writeFile(file, `parts:\n  - { number: 1, url: "postgres://127.0.0.1:${cluster.port}/token" }\n`);
    const { port } = system.server();
    await promisify(execFile)(process.execPath, ["deploy/image/migrate.ts", "token"], {
      cwd: ROOT,
      env: {
        PATH: process.env.PATH,
        DATABASE_URL: `postgres://${TOKEN.ownerRole}@127.0.0.1:${port}/token`,
        DATABASE_PASSWORD_FILE: join(system.home, "secrets", "db-token-owner-password"),
        PARTS_FILE: file,
      },
    });
    return file;
  }

  const gatehouse = (...argv: string[]) =>
    promisify(execFile)(process.execPath, ["cli/main.ts", ...argv, "--home", system.home], { cwd: ROOT });

  const rounds = Array.from({ length: ROUNDS }, (_, index) => ({
    round: index + 1,
    fault: FAULTS[index % FAULTS.length] as Fault,
  }));

  test.for(rounds)(
    "round $round, $fault: its users lose nothing, and no others notice",
    { timeout: ROUND_LIMIT_MS },
    async ({ round, fault }) => {
      const made = await failOver(fault, { cluster, load, payers: [], random });
      const { struckMs, electedMs, calls, refused, lastMs, factsBefore } = made;
      const isOfOthers = ({ slot = 0 }: (typeof calls)[number]) => slot >= FIRST_OF_OTHERS;
      const ofOthers = refused.filter(isOfOthers);
      const during = calls.filter(({ startedMs }) => startedMs > struckMs && startedMs < electedMs);
      const served = during.filter((call) => isOfOthers(call) && isAcknowledged(call));
      say(
        `round ${round}, ${fault}: elected after ${seconds(electedMs - struckMs)}, last refused call ${seconds(lastMs)} after it; ` +
          `${calls.length} calls, ${refused.length} refused; of users of the other part ${served.length} carried out before the election, ${ofOthers.length} refused`,
      );
      expect(ofOthers).toEqual([]);
      expect(served.length).toBeGreaterThan(0);
      expect(await load.problems(factsBefore)).toEqual([]);
      expect(load.violations).toEqual([]);
      expect(system.ended).toEqual([]);
      expect(lastMs).toBeLessThanOrEqual(LIMIT_MS);
    },
  );

  test("at the end everything that was ever acknowledged holds", { timeout: ROUND_LIMIT_MS }, async () => {
    expect(await load.problems(0)).toEqual([]);
    expect(load.violations).toEqual([]);
  });
});
