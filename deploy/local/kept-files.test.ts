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

const keep = (content: string, wasRewritten = true) =>
  keepFiles(home, [{ path: home.routesFile, content, wasRewritten }]);
const read = (ending = "") => readFile(`${home.routesFile}${ending}`, "utf8");

test("an unchanged file follows its default, silently", async () => {
  expect(await keep("first")).toEqual([]);
  expect(await keep("second")).toEqual([]);
  expect(await read()).toBe("second");
});

test("a changed file is never written, and each change of its default is told once", async () => {
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

test("of a home of an earlier version: what was written at each start is replaced and kept beside, what was kept stays", async () => {
  await writeFile(home.routesFile, "of the earlier version");
  await writeFile(home.accessFile, "roles of one's own");
  const notes = await keepFiles(home, [
    { path: home.routesFile, content: "new", wasRewritten: true },
    { path: home.accessFile, content: "new", wasRewritten: false },
  ]);
  expect(notes).toHaveLength(2);
  expect([await read(), await read(".old")]).toEqual(["new", "of the earlier version"]);
  expect(await readFile(home.accessFile, "utf8")).toBe("roles of one's own");
});

test("a damaged record costs no file of the user", async () => {
  await keep("first");
  await writeFile(home.routesFile, "my own");
  await writeFile(home.defaultsFile, "{");
  await keep("first");
  expect(await read()).toBe("my own");
});
