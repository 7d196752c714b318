import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { BARE_ENVIRONMENT, type System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});

const at = (name: string) => join(system.home, name);

/** The program itself, as an operator of this system. */
function gatehouse(...argv: string[]) {
  return new Promise<{ code: number; out: string; error: string }>((done) => {
    const entry = resolve(import.meta.dirname, "../../../cli/main.ts");
    // The system's ports are not the usual ones: its home says which.
    const env = { ...BARE_ENVIRONMENT, GATEHOUSE_HOME: system.home };
    execFile(
      process.execPath,
      [entry, ...argv],
      { env, maxBuffer: 16 * 1024 * 1024 },
      (failure, out, error) => {
        done({ code: failure === null ? 0 : Number(failure.code), out, error });
      },
    );
  });
}

test("what was done is exported and proven; one changed row behind the log's back is named", async () => {
  const user = await api.newUser();
  for (let amount = 1; amount <= 5; amount += 1) {
    const body = { amount, currency: "EUR", payee: "ACME Ltd", reference: `invoice ${amount}` };
    expect((await api.post("/payments", body, { token: user.accessToken })).status).toBe(201);
  }
  const leaver = await api.newUser();
  await api.post("/auth/login", { email: leaver.email.toUpperCase(), password: "not the password" });
  await using database = await databaseOfSystem(system, "audit");
  const claims = () => database.sql`select from claimed_emails where lower(address) = ${leaver.email}`;
  await expect.poll(async () => (await claims()).length).toBeGreaterThanOrEqual(6);
  await api.call("DELETE", "/auth/me", { token: leaver.accessToken, body: { password: leaver.password } });
  // Erased: and everything below is proven all the same.
  await expect.poll(async () => (await claims()).length).toBe(0);
  // The last outcome follows its answer, and its checkpoint comes within a second.
  await expect
    .poll(
      async () =>
        (await gatehouse("audit", "search", "--action", "payments.create", "--json")).out.split("\n").length,
    )
    .toBe(11);
  const checkpoint = async () => JSON.parse((await gatehouse("audit", "checkpoint", "--json")).out);
  await expect.poll(async () => (await checkpoint()).size).toBeGreaterThanOrEqual(12);

  const { verifierKey, note, size } = await checkpoint();
  writeFileSync(at("key"), `${verifierKey}\n`);
  writeFileSync(at("kept.jsonl"), `${JSON.stringify({ type: "checkpoint", note })}\n`);
  const trust = [
    "--key",
    at("key"),
    "--checkpoints",
    at("kept.jsonl"),
    "--checkpoints",
    at("checkpoints.jsonl"),
  ];
  expect(await gatehouse("audit", "export", "--output", at("log.jsonl"))).toMatchObject({
    code: 0,
    error: "",
  });
  const trustAtExport = trust.slice(0, 4);
  expect(await gatehouse("audit", "verify", at("log.jsonl"), ...trustAtExport)).toMatchObject({ code: 0 });
  expect(await gatehouse("audit", "verify", "--live", ...trust)).toMatchObject({ code: 0 });

  const sequence = Math.floor(size / 2);
  await transaction(database.sql, async (tx) => {
    const [row] = await tx<{ partition: string; position: string }[]>`
      select tableoid::regclass::text as partition, position from log_entries
      where position = (select position from leaves where sequence = ${sequence})
    `;
    const partition = tx(row?.partition ?? "");
    // As a superuser who means it: no trigger speaks.
    await tx`alter table ${partition} disable trigger all`;
    await tx`update ${partition} set resource = 'another' where position = ${row?.position ?? ""}`;
    await tx`alter table ${partition} enable always trigger append_only`;
  });
  const { code, out } = await gatehouse("audit", "verify", "--live", ...trust, "--json");
  expect(code).toBe(65);
  expect(JSON.parse(out)).toMatchObject({
    result: "tampered",
    findings: [{ code: "leaf", firstSequence: sequence, lastSequence: sequence }],
  });
  // What was exported before is as good as ever.
  expect(await gatehouse("audit", "verify", at("log.jsonl"), ...trustAtExport)).toMatchObject({ code: 0 });
});
