import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { expect } from "vitest";
import { ownNode } from "#clients/conformance/drivers.ts";
import { certificateFiles } from "#deploy/local/certificates.ts";
import { apiClient } from "../people/api-client.ts";
import { oneSystem } from "./one-system.ts";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");
const PASSWORD = "Correct-Horse-42";

/** The machine's own Node.js, and nothing of the repository's. */
export const outsideNode = ownNode();
export const OUTSIDE_ENVIRONMENT = {
  HOME: process.env.HOME ?? "",
  PATH: `${dirname(outsideNode)}:${process.env.PATH?.split(":")
    .filter((folder) => !folder.includes("node_modules"))
    .join(":")}`,
};

const PAPERS = [
  "docs/verify-tokens.md",
  ...["node", "go", "python", "java"].map((language) => `clients/${language}/README.md`),
];

/** The sample program of this name in the papers for developers of services. @throws if there is none. */
export async function programOfPaper(name: string): Promise<string> {
  const papers = await Promise.all(PAPERS.map((paper) => readFile(join(ROOT, paper), "utf8")));
  const program = papers
    .flatMap((paper) => paper.split("```"))
    .find((block) => /^\w+\n(?:\/\/|#|<!--) (\S+)(?: -->)?\n/.exec(block)?.[1] === name);
  if (program === undefined) throw new Error(`none of ${PAPERS.join(", ")} has ${name}`);
  return program.slice(program.indexOf("\n") + 1);
}

/** A service beside the shared system, which verifies tokens itself. */
export interface OutsideService {
  /** In which it runs. */
  folder: string;
  command: readonly string[];
  settings?: Record<string, string>;
  /** @returns `admitted`, `refused`, or what else it said; it may not listen yet. */
  ask(token: string): Promise<string>;
}

/** @returns how long after the answer to a logout the service refused the token, in milliseconds. */
export async function refusalAfterLogoutMs(service: OutsideService): Promise<number> {
  const child = start(service);
  try {
    const api = apiClient(oneSystem().url);
    const user = { email: `outside-${child.pid}@example.com`, password: PASSWORD };
    await api.post("/auth/register", { ...user, firstName: "Ada", lastName: "Lovelace" });
    const token: string = (await api.post("/auth/login", user)).body.data.accessToken;
    const { exp } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
    await expect.poll(() => service.ask(token)).toBe("admitted");
    expect((await api.post("/auth/logout", {}, { token })).status).toBe(200);
    const loggedOutMs = performance.now();
    // Past its expiry the token would be refused in any case.
    let answer = "admitted";
    while (answer === "admitted" && Date.now() < exp * 1_000) answer = await service.ask(token);
    const refusedMs = performance.now();
    expect(answer).toBe("refused");
    expect(Date.now()).toBeLessThan(exp * 1_000);
    return refusedMs - loggedOutMs;
  } finally {
    await end(child);
  }
}

function start({ folder, command: [program = "", ...args], settings }: OutsideService): ChildProcess {
  const { home, ports } = oneSystem();
  const { certificate, key, authority } = certificateFiles(join(home, "tls"), "payments-service");
  return spawn(program, args, {
    cwd: folder,
    env: {
      ...OUTSIDE_ENVIRONMENT,
      TOKEN_SERVICE_ADDRESS: `127.0.0.1:${ports.TOKEN_PORT}`,
      TLS_CERT_FILE: certificate,
      TLS_KEY_FILE: key,
      TLS_CA_FILE: authority,
      ...settings,
    },
    stdio: ["ignore", "inherit", "inherit"],
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}
