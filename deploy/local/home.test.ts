import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { emptyHome, openHome } from "./home.ts";

test("emptying a home keeps its marker, settings and foreign files, and removes the checkpoints", async () => {
  const path = await mkdtemp(join(tmpdir(), "gatehouse-home-"));
  onTestFinished(() => rm(path, { recursive: true }));
  const home = await openHome(path);
  await mkdir(home.postgres);
  const { checkpointFile } = home;
  // audit-service keeps the heads of the last days beside the checkpoints.
  for (const file of [checkpointFile, `${checkpointFile}.latest`, `${checkpointFile}.latest.1`]) {
    await writeFile(file, "a checkpoint of the log that goes\n");
  }
  await writeFile(join(path, "notes.txt"), "not ours\n");
  for (const file of [home.settingsFile, home.routesFile]) await writeFile(file, "# of the user\n");
  await emptyHome(home);
  expect((await readdir(path)).toSorted()).toEqual([
    "gatehouse-home",
    "logs",
    "notes.txt",
    "npm-start.env",
    "routes.yaml",
    "secrets",
    "services",
  ]);
});
