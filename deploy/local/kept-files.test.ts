import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { type Home, openHome } from "./home.ts";
import { keepFiles } from "./kept-files.ts";

let home: Home;
beforeEach(async () => {
  const path = await mkdtemp(join(tmpdir(), "gatehouse-home-"));
  onTestFinished(() => rm(path, { recursive: true }));
  home = await openHome(path);
});

const keep = (content: string) => keepFiles(home, [{ path: home.routesFile, content }]);
const read = (ending = "") => readFile(`${home.routesFile}${ending}`, "utf8");

test("an unchanged file follows its default, silently", async () => {
  expect(await keep("first")).toEqual([]);
  expect(await keep("second")).toEqual([]);
  expect(await read()).toBe("second");
});

test("a changed file is never written, and each change of its default is reported once", async () => {
  await keep("first");
  await writeFile(home.routesFile, "my own");
  expect(await keep("first")).toEqual([]);
  expect(await keep("second")).toEqual([expect.stringContaining("routes.yaml.default")]);
  expect([await read(), await read(".default")]).toEqual(["my own", "second"]);
  expect(await keep("second")).toEqual([]);
  expect(await keep("third")).toHaveLength(1);
  expect(await read()).toBe("my own");
});

test("a removed file comes back", async () => {
  await keep("first");
  await rm(home.routesFile);
  await keep("first");
  expect(await read()).toBe("first");
});

test("a damaged record costs no file of the user", async () => {
  await keep("first");
  await writeFile(home.routesFile, "my own");
  await writeFile(home.defaultsFile, "{");
  await keep("first");
  expect(await read()).toBe("my own");
});
