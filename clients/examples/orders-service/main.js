import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { createVerifier } from "@gatehouse-auth/token-client";
import { fastifyBearerAuth, principalIn } from "@gatehouse-auth/token-client/fastify";
import fastify from "fastify";

/** Orders behind Gatehouse, and a page that makes them through the gateway. README.md says how to run it. */

const { TOKEN_SERVICE_ADDRESS, TLS_CERT_FILE, TLS_KEY_FILE, TLS_CA_FILE, PORT = "8095" } = process.env;
const GATEWAY = process.env.GATEHOUSE_URL ?? "http://localhost:8080";
const MAX_ORDERS = 1_000;

/** Users by their role. Programs by what they were granted: without scopes a route admits none. */
const READERS = { roles: ["USER", "ADMIN"], scopes: ["orders:read"] };
const WRITERS = { roles: ["USER", "ADMIN"], scopes: ["orders:write"] };
const ADMINS = { roles: ["ADMIN"] };
const ORDER = {
  type: "object",
  required: ["item", "quantity"],
  properties: {
    item: { type: "string", minLength: 1, maxLength: 140 },
    quantity: { type: "integer", minimum: 1, maximum: 1_000 },
  },
};

/** A program is no user: its `userId` is empty, and what it orders is its own. */
const ownerOf = ({ kind, userId, clientId }) => (kind === "client" ? `client:${clientId}` : userId);

const verifier = createVerifier({
  address: TOKEN_SERVICE_ADDRESS,
  tls: { certFile: TLS_CERT_FILE, keyFile: TLS_KEY_FILE, caFile: TLS_CA_FILE },
  audience: "orders", // the name in `gatehouse routes add`
});
const app = fastify({ logger: true, bodyLimit: 16 * 1024 });
app.addHook("onClose", () => verifier.close());
await app.register(fastifyBearerAuth, { verifier });

/** Newest last, in memory for this example only. */
const orders = new Map();

app.get("/orders", { config: { auth: READERS } }, async (request) => {
  const principal = principalIn(request);
  const isShown = ({ owner }) => principal.role === "ADMIN" || owner === ownerOf(principal);
  return { orders: [...orders.values()].filter(isShown) };
});

app.post("/orders", { config: { auth: WRITERS }, schema: { body: ORDER } }, async (request, reply) => {
  const { item, quantity } = request.body;
  const order = { id: randomUUID(), item, quantity, owner: ownerOf(principalIn(request)) };
  orders.set(order.id, order);
  if (orders.size > MAX_ORDERS) orders.delete(orders.keys().next().value);
  return reply.code(201).send({ order });
});

app.delete("/orders/:id", { config: { auth: ADMINS } }, async (request, reply) =>
  reply.code(orders.delete(request.params.id) ? 204 : 404).send(),
);

const HTML = {
  "content-security-policy": `default-src 'self'; connect-src ${GATEWAY}`,
  "content-type": "text/html",
};
const SCRIPT = { "content-type": "text/javascript" };
const page = (path, headers, text) =>
  app.get(path, { config: { auth: "public" } }, async (_request, reply) => reply.headers(headers).send(text));
const text = (url) => readFile(fileURLToPath(url), "utf8");
page("/", HTML, await text(new URL("page.html", import.meta.url)));
page("/page.js", SCRIPT, await text(new URL("page.js", import.meta.url)));
page("/gatehouse-browser.js", SCRIPT, await text(import.meta.resolve("@gatehouse-auth/browser")));
page("/gateway.js", SCRIPT, `export const GATEWAY = ${JSON.stringify(GATEWAY)};\n`);

await app.listen({ port: Number(PORT), host: "localhost" });
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => app.close());
