import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { buildClient, writeClient } from "./build.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");

test("the library with its dependency is one file of at most 6 kB, and stores a lease and nothing else", async () => {
  const { code, gzippedBytes } = await buildClient();
  expect(gzippedBytes).toBeLessThanOrEqual(6 * 1024);
  for (const name of ["createClient", "GatehouseError"]) expect(code).toContain(name);
  expect(code).not.toMatch(/sessionStorage|indexedDB|document\.cookie|\bimport\b/);
  // Where there are no Web Locks: a random number and a time.
  expect(code.match(/localStorage|setItem/g)).toEqual(["setItem", "localStorage"]);
});

/** What an application writes. Each line that is expected to be wrong must be wrong. */
const CONSUMER = `
import { type Client, createClient, type EndReason, GatehouseError, type LoginResult } from "@gatehouse-auth/browser";

const client: Client = createClient({
  url: "https://api.example.com",
  onStepUp: async ({ acr, methods, problem }) => (acr > 2 && methods.includes("passkey") ? { passkey: true } : { code: problem ?? "" }),
  onApproval: async ({ details }) => (Object.keys(details).length > 0 ? { code: "123456" } : null),
});
client.onSessionEnd((reason: EndReason) => console.log(reason));

export async function logIn(email: string, password: string): Promise<string> {
  const result: LoginResult = await client.login({ email, password });
  switch (result.step) {
    case "done": return result.user.email;
    case "mfa": return logInWith(await client.completeMfa({ tempToken: result.tempToken, code: "123456" }));
    case "password": return result.tempToken;
    case "enrollment": return result.methods.join();
  }
}
const logInWith = (result: LoginResult) => (result.step === "done" ? result.user.firstName : result.tempToken);

export async function pay(): Promise<Response | string> {
  try {
    return await client.fetch("/payments", { method: "POST", body: "{}" });
  } catch (error) {
    return error instanceof GatehouseError ? error.code : "";
  }
}

// @ts-expect-error no address
createClient({});
// @ts-expect-error a password is missing
void client.login({ email: "ada@example.com" });
// @ts-expect-error no such scope
void client.logout("everything");
// @ts-expect-error only a finished login has a user
void client.login({ email: "", password: "" }).then((result) => result.user);
// @ts-expect-error read only
client.user = undefined;
`;

test("the package compiles in an application of its own, with types that refuse mistakes", {
  timeout: 180_000,
}, async () => {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-consumer-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const modules = join(folder, "node_modules");
  await mkdir(join(modules, "@gatehouse-auth"), { recursive: true });
  const library = join(modules, "@gatehouse-auth", "browser");
  await writeClient(library);
  const { license, description, dependencies } = JSON.parse(
    await readFile(join(library, "package.json"), "utf8"),
  );
  expect({ license, dependencies }).toEqual({ license: "Apache-2.0", dependencies: undefined });
  expect(description ?? "").not.toBe("");
  // A relative link would lead nowhere.
  expect(await readFile(join(library, "README.md"), "utf8")).not.toContain("](..");
  expect(await readFile(join(library, "LICENSE-simplewebauthn"), "utf8")).toContain("MIT License");
  await writeFile(join(folder, "application.ts"), CONSUMER);
  for (const module of ["nodenext", "preserve"]) {
    const options = [
      "--strict",
      "--noEmit",
      "--module",
      module,
      "--target",
      "es2022",
      "--lib",
      "es2022,dom,dom.iterable",
    ];
    const tsc = [join(ROOT, "node_modules", ".bin", "tsc"), ...options, "--types", "", "application.ts"];
    await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
    const compiled = promisify(execFile)(process.execPath, tsc, { cwd: folder });
    await expect(
      compiled.then(
        () => "compiled",
        (error: { stdout: string }) => error.stdout,
      ),
      module,
    ).resolves.toBe("compiled");
  }
});
