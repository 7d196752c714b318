import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { DomainError } from "../values/errors.ts";
import { atMost, createLogger } from "./logger.ts";

function logged(write: (logger: ReturnType<typeof createLogger>) => void): Record<string, unknown> {
  const stream = new PassThrough();
  write(createLogger("test", "info", stream));
  return JSON.parse(stream.read().toString());
}

test("an event is one JSON object, in UTC, with its level by name", () => {
  const event = logged((logger) => logger.info({ port: 1 }, "serving"));
  expect(event).toMatchObject({ level: "info", name: "test", port: 1, msg: "serving" });
  expect(event.time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
});

test.each(["password", "token", "accessToken", "refreshToken", "code", "authorization", "cookie", "secret"])(
  "a field named %s is not shown",
  (field) => {
    expect(JSON.stringify(logged((logger) => logger.info({ [field]: "canary" })))).not.toMatch(/canary/);
  },
);

test("a secret one level below is not shown either", () => {
  expect(JSON.stringify(logged((logger) => logger.info({ body: { password: "canary" } })))).not.toMatch(
    /canary/,
  );
});

test("an error keeps its code and causes, and loses properties that libraries add", () => {
  const cause = Object.assign(new Error("refused"), { code: "ECONNREFUSED", parameters: ["canary"] });
  const event = logged((logger) =>
    logger.error({ err: new DomainError("service_unavailable", "away", { cause }) }),
  );
  expect(event.err).toMatchObject({
    code: "service_unavailable",
    message: "away",
    cause: { code: "ECONNREFUSED", message: "refused" },
  });
  expect(JSON.stringify(event)).not.toMatch(/canary/);
});

test("lines that are written together all come out when the process ends, as UTF-8, in order", () => {
  const script = `
    const { bufferedOutput, createLogger } = await import("#kit/telemetry/logger.ts");
    const logger = createLogger("test", "info", bufferedOutput());
    for (let index = 0; index < 1_000; index += 1) logger.info({ index }, "Grüße");
    process.exit(0);`;
  const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
  const events = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(events.map(({ index }) => index)).toEqual(Array.from({ length: 1_000 }, (_, index) => index));
  expect(events[999].msg).toBe("Grüße");
});

test.each([
  ["a single line", 1],
  // 32 lines are written at once, then 64 at a time. Three are too few for a write of their own.
  ["the last lines that a stalled reader kept waiting", 32 + 20 * 64 + 3],
])("%s: comes out of a process that goes on and logs nothing else", async (_what, lines) => {
  const script = `
    const { bufferedOutput } = await import("#kit/telemetry/logger.ts");
    const output = bufferedOutput();
    for (let index = 0; index < ${lines}; index += 1) output.write("x".repeat(1_023) + "\\n");
    setInterval(() => process.send("written"), 300);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  onTestFinished(() => void child.kill());
  await once(child, "message");
  let bytes = 0;
  child.stdout?.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await expect.poll(() => bytes).toBe(lines * 1_024);
});

test("only the given number of calls passes in each period", () => {
  let now = 0;
  const passed: number[] = [];
  const limited = atMost(
    2,
    1_000,
    (value: number) => passed.push(value),
    () => now,
  );
  for (const [at, value] of [
    [0, 1],
    [0, 2],
    [999, 3],
    [1_000, 4],
    [5_000, 5],
  ] as const) {
    now = at;
    limited(value);
  }
  expect(passed).toEqual([1, 2, 4, 5]);
});
