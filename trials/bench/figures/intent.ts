import { MISSING_RATE, sendAtRate, sendLoad, writeRequests } from "../support/send-load.ts";
import { issueTokens } from "../support/tokens.ts";
import type { Figure } from "./figure.ts";
import { eachSystem, oursOf } from "./forwarded.ts";

const TOKENS = 200;
const WARM_UP_S = 5;
const RATE = { perSecond: 200, seconds: 4 };

/** A POST waits for its intent before the upstream is asked and for its outcome before the answer is complete; a GET does not. */
export const intent: Figure = {
  name: "intent",
  shows: "what durable audit entries add to a forwarded POST, 200 calls a second, against a GET",
  quantities: [
    { name: "added p50", unit: "ms", aims: [{ atMost: 2 }] },
    { name: "added p99", unit: "ms", aims: [{ atMost: 6 }] },
    { name: "p99 of a GET", unit: "ms", aims: [] },
  ],
  async prepare(bench) {
    if (MISSING_RATE !== undefined) return { subjects: [], missing: [MISSING_RATE] };
    const subjects = await eachSystem(bench, async (system) => {
      const { url, version } = system;
      const tokens = await issueTokens(system, TOKENS);
      const fileOf = (method: "GET" | "POST", more = {}) => {
        const requests = tokens.map((token) => ({
          method,
          path: "/payments",
          authorization: `Bearer ${token}`,
          ...more,
        }));
        return writeRequests(bench.folder, `intent-${version.name}-${method}`, requests);
      };
      const gets = await fileOf("GET");
      const posts = await fileOf("POST", { type: "application/json", body: '{"amount":1250}' });
      for (const file of [gets, posts]) await sendLoad(url, file, WARM_UP_S);
      return [
        oursOf(system, async () => {
          const get = await sendAtRate(url, gets, RATE);
          const post = await sendAtRate(url, posts, RATE);
          const values = {
            "added p50": post.p50 - get.p50,
            "added p99": post.p99 - get.p99,
            "p99 of a GET": get.p99,
          };
          return { values };
        }),
      ];
    });
    return { subjects };
  },
};
