/**
 * From a logout's answer to the first 401, on the gateway that answered and on the others: three gateways, three
 * token-services, Redis where there is one, with other traffic going on.
 *
 *   npm run bench:revocation
 */
import { apiClient } from "../tests/support/api-client.ts";
import { measureLogouts } from "../tests/support/logouts.ts";
import { findRedisProgram, startRedis } from "../tests/support/redis.ts";
import { startThreeOfEach } from "../tests/support/replicas.ts";
import { startSystem } from "../tests/support/system.ts";
import { quantile } from "./support/workbench.ts";

const LOGOUTS = 1_000;
const BACKGROUND_CLIENTS = 4;
const BACKGROUND_PAUSE_MS = 20;

const program = findRedisProgram();
const redis = program === undefined ? undefined : await startRedis(program);
const system = await startSystem();
const three = await startThreeOfEach(system, redis?.url);
const addresses = three.gateways.map(({ address }) => address);
const apis = addresses.map((address) => apiClient(`http://${address}`));
const [api] = apis;
if (api === undefined) throw new Error("no gateway");
const user = await api.newUser();

let isDone = false;
let requests = 0;
const background = Array.from({ length: BACKGROUND_CLIENTS }, async (_, index) => {
  const own = await (apis[index % 3] ?? api).newUser();
  while (!isDone) {
    const { status } = await (apis[index % 3] ?? api).get("/payments", { token: own.accessToken });
    if (status !== 200) throw new Error(`background traffic got ${status}`);
    requests += 1;
    await new Promise((resolve) => setTimeout(resolve, BACKGROUND_PAUSE_MS));
  }
});

const { own, others } = await measureLogouts(LOGOUTS, () => api.logIn(user), addresses);
isDone = true;
await Promise.all(background);

console.log(`${LOGOUTS} logouts, ${requests} other requests meanwhile, ${redis ? "with" : "without"} Redis`);
console.log(
  `the gateway that answered: ${own.filter((ms) => ms > 0).length} tokens accepted after the answer`,
);
const [p50, p99, most] = [0.5, 0.99, 1].map((share) => quantile(others, share).toFixed(1));
console.log(`the other gateways, answer to first 401: p50 ${p50} ms, p99 ${p99} ms, maximum ${most} ms`);
await three.stop();
await system.remove();
await redis?.remove();
const isKept = own.every((ms) => ms === 0) && quantile(others, 0.99) < 100 && quantile(others, 1) < 1_000;
console.log(
  isKept
    ? "promise kept: p99 under 100 ms, none after 1 s"
    : "PROMISE BROKEN: p99 under 100 ms, none after 1 s",
);
process.exit(isKept ? 0 : 1);
