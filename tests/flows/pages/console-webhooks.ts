import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Receiver, startReceiver } from "#event-service/delivery/replica.fixture.ts";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  closeVisit,
  expectSound,
  heading,
  openVisit,
  PORTAL_PASSWORD,
  portalOrigin,
  type Visit,
} from "../../support/browser/portal.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

const NAME = "Tickets of Grace";
const TEST_TYPE = "gatehouse.webhook.test.v1";

let system: System;
let origin: string;
let api: ApiClient;
let receiver: Receiver;
let browser: Browser;
let visit: Visit;
let page: Page;
let adminToken: string;
let id: string;
/** As the page showed them. */
const secrets: string[] = [];

const typesSince = (from: number) =>
  receiver.received.slice(from).map(({ body }) => JSON.parse(body).type as string);
const webhook = async () => (await api.get(`/admin/webhooks/${id}`, { token: adminToken })).body.data.webhook;

async function enter(at: Page, path: string, person: { email: string; password: string }) {
  await at.goto(`${origin}/console/${path}`);
  await at.getByLabel("E-mail address").fill(person.email);
  await at.getByLabel("Password", { exact: true }).fill(person.password);
  await at.getByRole("button", { name: "Log in", exact: true }).click();
}

/** Opens the dialog of an act, lets it be filled in, and does it. */
async function act(name: string, fill: () => Promise<void> = async () => undefined, submit = name) {
  const dialog = page.getByRole("dialog", { name });
  await page.getByRole("region", { name: "Actions" }).getByRole("button", { name, exact: true }).click();
  await fill();
  await dialog.getByRole("button", { name: submit, exact: true }).click();
  await dialog.waitFor({ state: "detached" });
}

/** Neither Escape nor a click beside it closes what is shown once. */
async function keepSecret() {
  const once = page.getByRole("dialog", { name: "Keep this now" });
  await once.waitFor();
  await expectSound(page, "the secret");
  await page.keyboard.press("Escape");
  await page.mouse.click(5, 5);
  const secret = await once.locator("code").innerText();
  await once.getByRole("button", { name: "Copy: Secret" }).click();
  await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toBe(secret);
  await once.getByRole("button", { name: "I have kept it" }).click();
  await once.waitFor({ state: "detached" });
  expect(await page.content()).not.toContain(secret);
  secrets.push(secret);
}

describe.skipIf(CHROMIUM === undefined)("webhooks in the console", () => {
  beforeAll(async () => {
    system = oneSystem();
    origin = portalOrigin(system);
    api = apiClient(system.url);
    receiver = await startReceiver();
    adminToken = (await api.logIn(ADMIN)).accessToken;
    browser = await launchChromium();
    visit = await openVisit(browser, system, { viewport: { width: 1200, height: 900 } });
    page = visit.page;
  });
  afterAll(async () => {
    receiver?.close();
    await browser?.close();
  });

  test("one is made: problems stand at their fields, types are found by words, and the secret is shown once", async () => {
    await enter(page, "webhooks", ADMIN);
    await heading(page, "Webhooks").waitFor();
    await page.getByRole("link", { name: "New webhook" }).click();
    await heading(page, "New webhook").waitFor();
    const create = page.getByRole("button", { name: "Create the webhook" });
    await page.getByLabel("Name").fill(NAME);
    await page.getByLabel("Address").fill("ftp://tickets.example/hook");
    await create.click();
    await page.getByText("Write 1 to 50 types").waitFor();
    await page.getByLabel("Types of events").fill("users");
    await create.click();
    await page.getByText("This is not an address that may be called").waitFor();
    await page.getByText("Write 1 to 50 types").waitFor();
    expect(await page.getByLabel("Address").getAttribute("aria-invalid")).toBe("true");
    await expectSound(page, "problems of a webhook");
    await page.getByLabel("Address").fill(receiver.url);
    await page.getByLabel("Types of events").fill("gatehouse.user.*");
    await page.getByRole("combobox", { name: "Find a type" }).fill("send a webhook a test");
    await page.getByRole("option", { name: "admin.webhooks.test" }).click();
    await page.getByRole("button", { name: "Add the type" }).click();
    const types = ["gatehouse.user.*", "gatehouse.admin.webhooks.test.v1"];
    expect(await page.getByLabel("Types of events").inputValue()).toBe(types.join("\n"));
    // What was found and not added counts too: here a group.
    await page.getByRole("combobox", { name: "Find a type" }).fill("session.");
    await page.keyboard.press("Tab");
    await create.click();
    await keepSecret();
    await heading(page, NAME).waitFor();
    id = page.url().split("/").at(-1) ?? "";
    expect(await webhook()).toMatchObject({ url: receiver.url, types: [...types, "gatehouse.session.*"] });
    await page.getByText("Nothing was sent yet.").waitFor();
  });

  test("a test says what came of it, and its call is a delivery", async () => {
    const press = () => page.getByRole("button", { name: "Send a test" }).click();
    receiver.status(500);
    await press();
    const failed = page.getByRole("alert").filter({ hasText: /Not delivered: HTTP 500 in \d+ ms\./ });
    await failed.getByText("The receiver answered that it did not take it.").waitFor();
    await expectSound(page, "a failed test");
    receiver.status(204);
    await press();
    await page.getByText(/^Delivered: HTTP 204 in \d+ ms\.$/).waitFor();
    const tests = receiver.received.filter(({ body }) => JSON.parse(body).type === TEST_TYPE);
    expect(tests).toHaveLength(2);
    for (const { body, headers } of tests) new Webhook(secrets[0] ?? "").verify(body, headers);

    const region = page.getByRole("region", { name: "Deliveries" });
    const delivered = region.getByRole("row").filter({ hasText: /Send a webhook a test.*Delivered/s });
    await expect
      .poll(async () => {
        await region.getByRole("button", { name: "Refresh" }).click();
        return delivered.count();
      })
      .toBeGreaterThan(0);
    await delivered
      .first()
      .getByText(/^HTTP\s204, \d+\sms$/)
      .waitFor();
    await delivered.first().getByRole("link").click();
    // The webhook's page shows this text as well, but not as its heading. A step back must wait for the entry's page.
    await heading(page, "admin.webhooks.test").waitFor();
    await page.goBack();
    await heading(page, NAME).waitFor();
  });

  test("paused, it says why and what to do; resumed, it is sent what it has missed", async () => {
    await act("Pause");
    const paused = page.getByText("Paused: somebody has asked for it.");
    await paused.waitFor();
    await page.getByText("it is sent all that it has missed").waitFor();
    expect((await webhook()).status).toBe("paused");
    await expectSound(page, "a paused webhook");
    const before = receiver.received.length;
    await api.newUser();
    await act("Resume");
    await paused.waitFor({ state: "detached" });
    await expect.poll(() => typesSince(before)).toContain("gatehouse.user.user_registered.v1");
  });

  test("past events are sent again from a number on, which the log must have", async () => {
    const first = receiver.received.find(({ sequence }) => sequence > 0);
    const before = receiver.received.length;
    await act("Send past events again", async () => {
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("From number").fill("999999999");
      await dialog.getByRole("button", { name: "Send past events again" }).click();
      await dialog.getByText("The log does not have this number.").waitFor();
      await expectSound(page, "a replay");
      await dialog.getByLabel("From number").fill(String(first?.sequence));
    });
    await page.getByText("The events are being sent again.").waitFor();
    await expect
      .poll(() => receiver.received.slice(before).some((event) => event.id === first?.id))
      .toBe(true);
  });

  test("another secret signs, and the former one for as long as was said", async () => {
    const name = "New secret";
    await act(
      name,
      async () => {
        await page.getByLabel("Hours that the former secret signs too").fill("2");
      },
      "Make a new secret",
    );
    await keepSecret();
    await page.getByText("The former secret signs too until").waitFor();
    const until = Date.parse((await webhook()).formerSecretUntil) - Date.now();
    expect(until).toBeGreaterThan(0);
    expect(until).toBeLessThanOrEqual(2 * 3_600_000);
    expect(new Set(secrets).size).toBe(2);
    await page.getByRole("button", { name: "Send a test" }).click();
    await page.getByText(/^Delivered: /).waitFor();
    const test = receiver.received.findLast(({ body }) => JSON.parse(body).type === TEST_TYPE);
    for (const secret of secrets) new Webhook(secret).verify(test?.body ?? "", test?.headers ?? {});
  });

  test("name, address, types and owner are changed", async () => {
    const grace = await api.newUser();
    await act(
      "Change",
      async () => {
        await page.getByRole("dialog").getByLabel("Name").fill(`${NAME} 2`);
        await page.getByRole("dialog").getByLabel("Types of events").fill("gatehouse.*\n\n gatehouse.* ");
      },
      "Save the change",
    );
    await heading(page, `${NAME} 2`).waitFor();
    await act("Change the owner", async () => {
      await page.getByLabel("Owner’s e-mail address").fill(grace.email);
    });
    await page.getByRole("link", { name: grace.email }).waitFor();
    expect(await webhook()).toMatchObject({
      ...{ name: `${NAME} 2`, url: receiver.url, types: ["gatehouse.*"], ownerId: grace.user.id },
    });
  });

  test("who only reads finds no button, and a role without the permission no page", async () => {
    const accessFile = join(system.home, "access.yaml");
    const shipped = await readFile(accessFile, "utf8");
    const roles = "  WATCHER: [webhooks:read, webhooks:write]\n  STRANGER: [system:read]\n";
    await writeFile(accessFile, shipped.replace("  AUDITOR:", `${roles}  AUDITOR:`));
    for (const role of ["WATCHER", "STRANGER"]) {
      const person = { email: `${role.toLowerCase()}@example.com`, password: PORTAL_PASSWORD };
      const body = { ...person, firstName: "Wanda", lastName: "Webhook" };
      expect((await api.post("/auth/register", body)).status).toBe(201);
      await proveAddress(system, api, person);
      const { user } = await api.logIn(person);
      const change = { token: adminToken, body: { role } };
      // Both services read the file within a second.
      await expect
        .poll(async () => (await api.call("PATCH", `/admin/users/${user.id}`, change)).status)
        .toBe(200);
      const theirs = await openVisit(browser, system);
      const { page: open } = theirs;
      const navigation = open.getByRole("navigation").getByRole("link", { name: "Webhooks" });
      if (role === "WATCHER") {
        // To change one, `audit:read` is needed too.
        await enter(open, "webhooks", person);
        await open.getByRole("link", { name: `${NAME} 2` }).waitFor();
        await expectSound(open, "webhooks on a small phone");
        expect(await navigation.count()).toBe(1);
        expect(await open.getByRole("link", { name: "New webhook" }).count()).toBe(0);
        await open.getByRole("link", { name: `${NAME} 2` }).click();
        const deliveries = open.getByRole("region", { name: "Deliveries" });
        await deliveries.getByText("Delivered", { exact: true }).first().waitFor();
        await expectSound(open, "a webhook on a small phone");
        const buttons = await open.getByRole("main").getByRole("button").allInnerTexts();
        expect(buttons.filter((name) => name !== "Show more")).toEqual(["Refresh", "Copy", "Copy"]);
      } else {
        await enter(open, "system", person);
        await heading(open, "System").waitFor();
        expect(await navigation.count()).toBe(0);
        for (const path of ["webhooks", "webhooks/new", `webhooks/${id}`]) {
          await open.goto(`${origin}/console/${path}`);
          await heading(open, "There is no such page").waitFor();
        }
        expect(theirs.watched.addresses.filter((address) => address.includes("/admin/webhooks"))).toEqual([]);
      }
      await closeVisit(theirs);
    }
  });

  test("it is deleted once its name was typed", async () => {
    await act("Delete the webhook", async () => {
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Delete the webhook" }).click();
      await dialog.getByText("Fill in this field.").waitFor();
      await dialog.getByLabel(`Type ${NAME} 2 to confirm`).fill(`${NAME} 2`);
    });
    await page.getByText("The webhook is gone.").waitFor();
    expect((await api.get(`/admin/webhooks/${id}`, { token: adminToken })).status).toBe(404);
    await page.getByRole("link", { name: "All webhooks" }).click();
    await heading(page, "Webhooks").waitFor();
    expect(await page.getByRole("link", { name: `${NAME} 2` }).count()).toBe(0);
    await closeVisit(visit);
  });
});
