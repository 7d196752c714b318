import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createMetrics } from "../telemetry/metrics.ts";
import { parsePeopleFile, refusedPeopleConfig, watchRefusedPeople } from "./refused-people.ts";

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "gatehouse-people-"));
  path = join(folder, "refused-people.yaml");
});
afterEach(() => rm(folder, { recursive: true }));

/** As Kubernetes and editors do. */
async function replaceFile(text: string): Promise<void> {
  await writeFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
}

test("the names are those of the audit log", () => {
  expect([...parsePeopleFile("refused: [operator:ada, auditor:b.en-1]")]).toEqual([
    "operator:ada",
    "auditor:b.en-1",
  ]);
  expect([...parsePeopleFile("refused: []")]).toEqual([]);
});

test.each([
  ["", "(all)"],
  ["refused: operator:ada", "line 1, refused"],
  ["refused:\n  - operator:ada\n  - ada", "line 3, refused.1: must be like operator:ada"],
  ["refused: [gateway:ada]", "refused.0"],
  ["refused: [operator:Ada]", "refused.0"],
  ["refused: [operator:]", "refused.0"],
  ["refuse: []", "refuse: is not known"],
])("the file %j cannot be used", async (text, problem) => {
  expect(() => parsePeopleFile(text)).toThrow(problem);
  await writeFile(path, text);
  const { error } = refusedPeopleConfig.REFUSED_PEOPLE_FILE.safeParse(path);
  expect(error?.issues[0]?.message).toContain(problem);
});

test("a change is in force; after one that cannot be used the names of before stay refused, and it is measured", async () => {
  await writeFile(path, "refused: [operator:ada]");
  const metrics = createMetrics("test");
  const people = watchRefusedPeople(refusedPeopleConfig.REFUSED_PEOPLE_FILE.parse(path), {
    logger: pino({ level: "silent" }),
    metrics,
    lookEveryMs: 5,
  });
  const isUnusable = async () =>
    /^gatehouse_refused_people_file_refused\{.*\} 1$/m.test(await metrics.render());
  try {
    expect([people.has("operator:ada"), people.has("auditor:ada")]).toEqual([true, false]);
    await replaceFile("refused: [auditor:ada]");
    await expect.poll(() => people.has("auditor:ada")).toBe(true);
    expect(people.has("operator:ada")).toBe(false);
    expect(await isUnusable()).toBe(false);
    await replaceFile("refused: [everybody]");
    await expect.poll(isUnusable).toBe(true);
    expect(people.has("auditor:ada")).toBe(true);
    await rm(path);
    await replaceFile("refused: []");
    await expect.poll(() => people.has("auditor:ada")).toBe(false);
    expect(await isUnusable()).toBe(false);
  } finally {
    await people.watch?.stop();
  }
});

test("without a file nobody is refused", () => {
  const people = watchRefusedPeople(refusedPeopleConfig.REFUSED_PEOPLE_FILE.parse(undefined), {
    logger: pino({ level: "silent" }),
    metrics: createMetrics("test"),
  });
  expect([people.has("operator:ada"), people.watch]).toEqual([false, undefined]);
});
