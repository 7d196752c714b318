import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { BrowserContext, Page } from "playwright-core";
import type { Client } from "#clients/browser/create-client.ts";
import type { System } from "../system/system.ts";

/** What a page of the tests has. */
export interface Application {
  client: Client;
  ends: string[];
  offsetMs: number;
  /** What its user types, in turn; `passkey` uses one. */
  codes: string[];
  /** Methods of each proof that the library has asked for. */
  asked: string[][];
}

export interface TabOptions {
  /** Of the gateway, as the library calls it. */
  gateway: string;
  /** Of the application. The page of the gateway's own origin is made by the test. */
  origin: string;
  /** The library. */
  script: string;
  codes?: string[];
}

/** A tab with the library as an application has it. */
export async function openTab(
  context: BrowserContext,
  { gateway, origin, script, codes = [] }: TabOptions,
): Promise<Page> {
  const page = await context.newPage();
  if (origin === gateway) {
    await page.route("**/blank", (route) =>
      route.fulfill({ contentType: "text/html", body: "<!doctype html>" }),
    );
    await page.route("**/client.js", (route) =>
      route.fulfill({ contentType: "text/javascript", body: script }),
    );
  }
  await page.goto(`${origin}/blank`);
  // As text: the test runner would rewrite an import.
  await page.evaluate(`import("/client.js").then(({ createClient }) => {
    const proof = async ({ methods }) => {
      asked.push(methods);
      const code = codes.shift() ?? "";
      return code === "passkey" ? { passkey: true } : { code };
    };
    globalThis.offsetMs = 0;
    globalThis.ends = [];
    globalThis.asked = [];
    globalThis.codes = ${JSON.stringify(codes)};
    globalThis.client = createClient({
      url: ${JSON.stringify(gateway)},
      now: () => Date.now() + offsetMs,
      onStepUp: proof,
      onApproval: proof,
    });
    client.onSessionEnd((reason) => ends.push(reason));
  })`);
  return page;
}

/** Runs in the page: it can use nothing of here but its arguments. */
export const inTab = <T, A>(
  page: Page,
  work: (own: Application, argument: A) => Promise<T>,
  argument: A,
): Promise<T> => page.evaluate(`(${work})(globalThis, ${JSON.stringify(argument)})`);

export const logIn = (page: Page, { email, password }: { email: string; password: string }) =>
  inTab(page, (own, credentials) => own.client.login(credentials), { email, password });
export const resume = (page: Page) => inTab(page, async (own) => (await own.client.resume())?.email, null);
export const endsOf = (page: Page) => inTab(page, async (own) => own.ends, null);
export const me = (page: Page) =>
  inTab(page, async (own) => (await own.client.fetch("/auth/me")).status, null);
/** As if all tokens of before had expired. */
export const tokenAfter = (page: Page, offsetMs: number) =>
  inTab(
    page,
    async (own, offset) => {
      own.offsetMs = offset;
      return (await own.client.accessToken()) !== undefined;
    },
    offsetMs,
  );

/** How often the token-service has renewed a session, by the result. */
export async function refreshes(system: System): Promise<Record<string, number>> {
  const text = await (await fetch(`http://127.0.0.1:${system.ports.TOKEN_OPERATIONS_PORT}/metrics`)).text();
  const lines = [...text.matchAll(/^gatehouse_refreshes_total\{[^}]*result="(\w+)"[^}]*\} (\d+)$/gm)];
  return Object.fromEntries(lines.map(([, result = "", count]) => [result, Number(count)]));
}
export const sum = (counts: Record<string, number>) =>
  Object.values(counts).reduce((total, count) => total + count, 0);

/**
 * What becomes of the answer to a refresh that the gateway has carried out: it waits until its tab has gone, it is lost whole, or
 * it is cut after its head, which has the cookie.
 */
type Fate = "held" | "lost" | "cut";

/** A way to the gateway on which answers to refreshes can be lost. Of the same site, on another port. */
export interface LossyWay {
  origin: string;
  /** What happens to the next answers to refreshes, in turn. Then they pass. */
  plan: Fate[];
  /** The gateway has answered, and the answer waits. */
  holding: Promise<void>;
  server: Server;
}

/** Until the browser has read the head. */
const CUT_MS = 100;

export async function openLossyWay(system: System): Promise<LossyWay> {
  const held = Promise.withResolvers<void>();
  const plan: LossyWay["plan"] = [];
  const server = createServer((incoming, outgoing) => {
    // On a connection that was used before, Chromium would repeat a call without an answer by itself.
    outgoing.shouldKeepAlive = false;
    const headers = { ...incoming.headers, host: new URL(system.url).host };
    const { method = "GET", url: path = "/" } = incoming;
    const sent = request({ host: "127.0.0.1", port: system.ports.GATEWAY_PORT, method, path, headers });
    sent.on("response", (answer) => {
      const fate = method === "POST" && path === "/auth/refresh" ? plan.shift() : undefined;
      if (fate === "held") return held.resolve();
      if (fate === "lost") return outgoing.destroy();
      outgoing.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      if (fate === "cut") outgoing.write(" ", () => setTimeout(() => outgoing.destroy(), CUT_MS));
      else answer.pipe(outgoing);
    });
    sent.on("error", () => outgoing.destroy());
    incoming.pipe(sent);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { origin: `http://localhost:${port}`, plan, holding: held.promise, server };
}

/**
 * An application of its own origin, as far as browsers are concerned: an empty page, on 127.0.0.1 and `localhost`.
 * @param script served as `/client.js`.
 */
export async function serveBlankPage(port: number, script = ""): Promise<Server> {
  const server = createServer(({ url }, response) => {
    const isScript = url === "/client.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : "<!doctype html><title>app</title>");
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}

/** By the page's own calls, on the device that it has. @returns the status of the answer. */
export function addPasskey(page: Page): Promise<unknown> {
  return page.evaluate(`(async () => {
    const post = (path, body) => client.fetch(path, {
      method: "POST",
      ...(body && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
    });
    const { data } = await (await post("/auth/passkeys/options")).json();
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(data);
    const credential = await navigator.credentials.create({ publicKey });
    return (await post("/auth/passkeys", { response: credential.toJSON(), name: "This browser" })).status;
  })()`);
}
