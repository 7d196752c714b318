/**
 * What a storm of logins does to the rest of a real identity-service: 60 at once, again and again, each from a network
 * of its own. The delay of its event loop and its memory (from its /metrics), and the latency of other calls, beside
 * the same figures of a quiet time in the same run. Everything runs on this machine, the storm's clients too.
 *
 *   npm run trial -- login-storm
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { certificateFiles } from "#deploy/local/certificates.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { DomainError } from "#kit/values/errors.ts";
import { IdentityServiceClient } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { TokenServiceClient } from "#proto/gatehouse/token/v1/token_service.ts";
import { startSystem } from "#tests/support/system/system.ts";
import { quantile } from "./support/workbench.ts";

const AT_ONCE = 60;
const PHASE_MS = 10_000;
const PASSWORD = "correct horse battery";
const PAUSE_MS = 5;

const system = await startSystem();
const files = certificateFiles(join(system.home, "tls"), "gateway");
const certificate = new ProcessCertificate({
  certFile: files.certificate,
  keyFile: files.key,
  caFile: files.authority,
});
const local = (port: number) => `127.0.0.1:${port}`;
const identity = createRpcClient(IdentityServiceClient, {
  address: local(system.ports.IDENTITY_PORT),
  service: "identity-service",
  certificate,
});
const token = createRpcClient(TokenServiceClient, {
  address: local(system.ports.TOKEN_PORT),
  service: "token-service",
  certificate,
});
const operations = `http://${local(system.ports.IDENTITY_OPERATIONS_PORT)}`;

const context = () => newCallContext();
const emailOf = (index: number) => `user${index}@example.com`;
const networkOf = (index: number) => `192.0.2.${index}`;

const logIn = (index: number) =>
  callUnary(
    identity,
    identity.login,
    {
      email: emailOf(index),
      password: PASSWORD,
      clientIp: networkOf(index),
      userAgent: "bench",
      deviceToken: "",
    },
    context(),
  );

for (let index = 0; index < AT_ONCE; index += 1) {
  const person = { email: emailOf(index), password: PASSWORD, firstName: "Ada", lastName: "Lovelace" };
  await callUnary(identity, identity.register, { ...person, clientIp: networkOf(index) }, context());
}
const { result } = await logIn(0);
if (result?.$case !== "completed") throw new Error("not logged in");
const { tokens, user } = result.value;

const CALLS = {
  GetUser: () => callUnary(identity, identity.getUser, { userId: user?.id ?? "" }, context()),
  VerifyToken: () =>
    callUnary(token, token.verifyToken, { token: tokens?.accessToken ?? "" }, newCallContext()),
  health: () => fetch(`${operations}/healthz`).then((answer) => answer.text()),
};

/** Of the process: memory now, and its loop's delay since it was asked before. */
async function vitals(): Promise<{ rssMib: number; delayMaxMs: number; delayP99Ms: number }> {
  const text = await (await fetch(`${operations}/metrics`)).text();
  const value = (name: string) =>
    Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, "m").exec(text)?.[1] ?? Number.NaN);
  return {
    rssMib: value("process_resident_memory_bytes") / 2 ** 20,
    delayMaxMs: value("nodejs_eventloop_lag_max_seconds") * 1_000,
    delayP99Ms: value("nodejs_eventloop_lag_p99_seconds") * 1_000,
  };
}

/** The other calls and the process, while `load` goes on or nothing does. */
async function observe(name: string, load: (untilMs: number) => Promise<void>): Promise<void> {
  const untilMs = performance.now() + PHASE_MS;
  const times: Record<string, number[]> = {};
  const seen: Awaited<ReturnType<typeof vitals>>[] = [];
  const repeat = async (work: () => Promise<unknown>, pauseMs: number) => {
    while (performance.now() < untilMs) {
      await work();
      await sleep(pauseMs);
    }
  };
  await vitals(); // what was before does not count
  await Promise.all([
    load(untilMs),
    repeat(async () => seen.push(await vitals()), 250),
    ...Object.entries(CALLS).map(([call, work]) => {
      const taken: number[] = [];
      times[call] = taken;
      return repeat(async () => {
        const startedMs = performance.now();
        await work();
        taken.push(performance.now() - startedMs);
      }, PAUSE_MS);
    }),
  ]);
  const most = (pick: (each: (typeof seen)[number]) => number) => Math.max(...seen.map(pick)).toFixed(1);
  console.log(`\n${name}`);
  console.log(
    `event loop delay: p99 ${most((each) => each.delayP99Ms)} ms (worst quarter second), max ${most((each) => each.delayMaxMs)} ms`,
  );
  console.log(`memory, highest: ${most((each) => each.rssMib)} MiB`);
  for (const [call, taken] of Object.entries(times)) {
    const at = (share: number) => quantile(taken, share).toFixed(1);
    console.log(
      `${call}: median ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms, of ${taken.length} calls`,
    );
  }
}

const came = new Map<string, number>();
async function storm(untilMs: number): Promise<void> {
  while (performance.now() < untilMs) {
    await Promise.all(
      Array.from({ length: AT_ONCE }, async (_, index) => {
        const outcome = await logIn(index).then(
          () => "in",
          (error: unknown) => (error instanceof DomainError ? error.code : "defect"),
        );
        came.set(outcome, (came.get(outcome) ?? 0) + 1);
      }),
    );
  }
}

const idle = async () => undefined;
await observe("warming up", storm);
came.clear();
await observe("quiet", idle);
await observe(`storm of ${AT_ONCE} at once`, storm);
console.log(`logins: ${[...came].map(([outcome, count]) => `${count} ${outcome}`).join(", ")}`);
await sleep(2_000);
await observe("quiet again", idle);
identity.close();
token.close();
certificate.close();
await system.remove();
