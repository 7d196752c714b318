import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
import { createMemoryLimiter } from "../limits/call-limiter.ts";
import { defaultLimitClasses } from "../limits/limit-class.ts";
import { exchange, statuses } from "../testing/raw-socket.ts";
import { HOST, routesOf, testGateway, verifierOfUsers } from "../testing/test-gateway.ts";

const approval = { fields: ["/amount"] };
const routes = routesOf([
  {
    prefix: "/payments",
    upstream: "http://127.0.0.1:9",
    maxOpenPerCaller: 1,
    methods: { POST: { roles: ["USER"], action: "payments.create", approval } },
  },
]);

/** One call of a network, or of a user, at a time. What each call waits for before its body is read comes when `answer` says so. */
function gatewayThatWaits() {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const wait = () => {
    asked.resolve();
    return answer.promise;
  };
  const limiter = createMemoryLimiter({ replicas: 1, now: () => performance.now() });
  const verifier = verifierOfUsers();
  const gateway = testGateway({
    routes,
    callLimiter: { ...limiter, take: (buckets) => wait().then(() => limiter.take(buckets)) },
    verifier: { ...verifier, verify: (token) => wait().then(() => verifier.verify(token)) },
    limitClasses: { ...defaultLimitClasses(), login: { address: { calls: 3, perSeconds: 60 } } },
  });
  return { ...gateway, asked: asked.promise, answer: answer.resolve };
}

test.each([
  { what: "a login", path: "/auth/login" },
  { what: "a call that needs an approval", path: "/payments" },
])("$what whose client leaves before its body is read ends, and gives its place back", async ({ path }) => {
  const { app, asked, answer, log } = gatewayThatWaits();
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const head = [
    `POST ${path} HTTP/1.1`,
    `Host: ${HOST}`,
    "Authorization: Bearer ada",
    "Content-Type: application/json",
  ].join("\r\n");
  const closed = new Promise<void>((resolve) => {
    app.server.once("connection", (socket) => socket.once("close", resolve));
  });
  const client = connect({ port, host: "127.0.0.1" });
  client.write(`${head}\r\nContent-Length: 20\r\n\r\n{`);
  await asked;
  client.destroy();
  await closed;
  answer();
  await expect.poll(log).toContain('"status":499');
  const { text } = await exchange(port, `${head}\r\nConnection: close\r\nContent-Length: 3\r\n\r\nxyz`);
  expect(statuses(text)).toEqual([400]);
});
