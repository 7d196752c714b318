import { randomUUID } from "node:crypto";
import postgres from "postgres";
import { logIn, startTokenReplica } from "#tests/support/system/token-service.ts";
import { refreshSession } from "#token-service/sessions/refresh-session.ts";
import { runMany, startWorkbench } from "../support/workbench.ts";
import type { Figure, Subject } from "./figure.ts";

const SESSIONS = 64;
const REFRESHES = 2_000;
const IN_PARALLEL = 16;

/** Of this checkout only, in this process: the database's share of a refresh. */
export const refreshTransaction: Figure = {
  name: "refresh-transaction",
  shows: "refreshes in process, beside begin, lock, update, commit over as many connections",
  quantities: [{ name: "", unit: "/s", aims: [{ of: "transaction", atLeast: 0.55 }] }],
  async prepare() {
    const workbench = await startWorkbench();
    const sql = await workbench.connect("token-service");
    const login = await workbench.login("token-service");
    const driver = postgres({ ...login, max: 10, onnotice: () => undefined });
    const replica = await startTokenReplica(sql);
    const origin = { ip: "192.0.2.1", userAgent: "bench", requestId: "", traceId: "" };
    const leaves: { sessionId: string; refreshToken: string }[] = [];
    for (let index = 0; index < SESSIONS; index += 1) leaves.push(await logIn(replica, randomUUID()));
    const refresh = async (index: number) => {
      const leaf = leaves[index % SESSIONS];
      if (leaf === undefined) throw new Error("no session");
      leaf.refreshToken = (await refreshSession(replica.deps, leaf.refreshToken, origin)).refreshToken;
    };
    const bare = async (index: number) => {
      const id = leaves[index % SESSIONS]?.sessionId ?? "";
      await driver.begin(async (tx) => {
        await tx`select * from sessions where id = ${id} for update`;
        await tx`update sessions set last_used_at = ${new Date()}, rotated_at = rotated_at, ip = ${origin.ip} where id = ${id}`;
      });
    };
    const rateOf = (name: string, isOurs: boolean, work: (index: number) => Promise<void>): Subject => ({
      name,
      isOurs,
      sample: async () => ({ values: { "": REFRESHES / (await runMany(REFRESHES, IN_PARALLEL, work)) } }),
    });
    return {
      subjects: [rateOf("ours", true, refresh), rateOf("bare transaction", false, bare)],
      async end() {
        replica.stop();
        await Promise.all([sql.end(), driver.end()]);
        await workbench.stop();
      },
    };
  },
};
