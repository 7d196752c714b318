import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { randomPassword } from "#deploy/local/private-file.ts";
import { FLOOR } from "../support/identity.ts";
import {
  type Calls,
  call,
  demand,
  emailOf,
  identityPeer,
  missingFile,
  PASSWORD,
} from "./identity-support.ts";
import { INSTALLED } from "./peer.ts";

export const BETTER_AUTH = identityPeer({
  name: "Better Auth",
  does: "limits in memory, each session read from PostgreSQL; no refresh, no log",
  missing: () => missingFile("better-auth", "better-auth", "node_modules", ".package-lock.json"),
  database: "better_auth",
  async program({ port, users, database }) {
    const settings = {
      port,
      databaseUrl: database.url,
      secret: randomPassword(),
      users: Array.from({ length: users }, (_, user) => emailOf(user)),
      password: PASSWORD,
      argon2: { memoryCost: FLOOR.memoryKib, timeCost: FLOOR.iterations, parallelism: FLOOR.parallelism },
    };
    const env = { NODE_ENV: "production", BENCH: JSON.stringify(settings) };
    return { command: process.execPath, args: [await serverFile()], env };
  },
  calls: callsOf,
});

/** Node looks for packages beside the file. */
async function serverFile(): Promise<string> {
  const file = join(INSTALLED, "better-auth", "server.mjs");
  await copyFile(join(import.meta.dirname, "better-auth", "server.mjs"), file);
  return file;
}

function callsOf(url: string): Calls {
  const cookies = new Map<number, string>();
  // The limits count an address, which it takes from a header only.
  const headers = { origin: url, "x-forwarded-for": "192.0.2.1" };
  return {
    async login(user, password) {
      const answer = await call(`${url}/api/auth/sign-in/email`, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify({ email: emailOf(user), password }),
      });
      if (answer.status === 401 && answer.json.code === "INVALID_EMAIL_OR_PASSWORD") return false;
      demand(answer.status === 200 && answer.json.user.email === emailOf(user), "login", answer);
      const cookie = answer.headers.getSetCookie().map((line) => line.split(";")[0]);
      cookies.set(user, cookie.join("; "));
      return true;
    },
    async check(user) {
      const answer = await call(`${url}/api/auth/get-session`, {
        headers: { ...headers, cookie: cookies.get(user) ?? "" },
      });
      demand(answer.status === 200 && answer.json?.user.email === emailOf(user), "get-session", answer);
    },
  };
}
