import * as argon2 from "@node-rs/argon2";
import { INTROSPECTION_CLIENT } from "../support/gatehouse.ts";
import { FLOOR } from "../support/identity.ts";
import { identityReferences } from "../support/identity-peers.ts";
import { logIn, newPeople, refresh } from "../support/people.ts";
import { sendLoad, writeRequests } from "../support/send-load.ts";
import { runMany, startCpu } from "../support/workbench.ts";
import type { Figure, Sample } from "./figure.ts";
import { cpuEach, eachSystem, oursOf } from "./forwarded.ts";

/** CPU of the whole system for one call of a person or a service, through the gateway, into a durable database. */

const MS = 1_000;
const IN_PARALLEL = 8;
/** No more, so that hashes do not wait for each other. */
const LOGINS_AT_ONCE = 4;
const LOGINS = 100;
/** Each has at most 20 sessions: one that ends with every further login would be part of its cost. */
const PEOPLE_OF_LOGIN = 150;
const PEOPLE = 64;
const REFRESHES = 1_000;
const SAMPLE_S = 3;
const FORM = "application/x-www-form-urlencoded";

export const login: Figure = {
  name: "login",
  shows: "a login of a known device, beside the bare hash with the same parameters",
  quantities: [
    { name: "", unit: "ms CPU", aims: [{ of: "hash", atMost: 1.7 }] },
    { name: "a second and core", unit: "", aims: [] },
  ],
  async prepare(bench) {
    const ours = await eachSystem(bench, async (system) => {
      const people = await newPeople(system, PEOPLE_OF_LOGIN);
      let next = 0;
      const logInMany = async (count: number) => {
        await runMany(count, LOGINS_AT_ONCE, async () => {
          next += 1;
          const person = people[next % people.length];
          if (person !== undefined) await logIn(system, person);
        });
        return count;
      };
      return [
        oursOf(system, async () => {
          const { values, parts = {} } = await cpuEach(system, () => logInMany(LOGINS), MS);
          return { values: { ...values, "a second and core": 1_000 / (values[""] ?? Number.NaN) }, parts };
        }),
      ];
    });
    const password = "correct horse battery";
    const hash = await argon2.hash(password, {
      memoryCost: FLOOR.memoryKib,
      timeCost: FLOOR.iterations,
      parallelism: FLOOR.parallelism,
    });
    const bare = async (): Promise<Sample> => {
      const cpu = startCpu();
      await runMany(LOGINS, LOGINS_AT_ONCE, () => argon2.verify(hash, password));
      return { values: { "": cpu() / LOGINS / MS } };
    };
    const load = { calls: LOGINS, inParallel: LOGINS_AT_ONCE };
    const { references, missing } = await identityReferences(bench, "login", load);
    const hashing = { name: "bare argon2id hash", isOurs: false, sample: bare };
    return { subjects: [...ours, hashing, ...references], missing };
  },
};

export const refreshing: Figure = {
  name: "refresh",
  shows: "a refresh of a session",
  quantities: [{ name: "", unit: "ms CPU", aims: [{ atMost: 1.8 }] }],
  async prepare(bench) {
    const subjects = await eachSystem(bench, async (system) => {
      const people = await newPeople(system, PEOPLE);
      const refreshMany = async (count: number) => {
        // Each person's refreshes follow one another.
        await runMany(IN_PARALLEL, IN_PARALLEL, async (place) => {
          const own = people.filter((_, index) => index % IN_PARALLEL === place % IN_PARALLEL);
          for (let index = 0; index < count / IN_PARALLEL; index += 1) {
            const person = own[index % own.length];
            if (person !== undefined) await refresh(system, person);
          }
        });
        return count;
      };
      return [oursOf(system, () => cpuEach(system, () => refreshMany(REFRESHES), MS))];
    });
    const load = { calls: REFRESHES, inParallel: IN_PARALLEL };
    const { references } = await identityReferences(bench, "refresh", load);
    return { subjects: [...subjects, ...references] };
  },
};

export const introspection: Figure = ownPath({
  name: "introspection",
  shows: "an introspection by a service (RFC 7662)",
  atMost: 0.6,
  ofPeers: "check",
  requestOf: (token) => {
    const { id, secret } = INTROSPECTION_CLIENT;
    const authorization = `Basic ${Buffer.from(`${id}:${encodeURIComponent(secret)}`).toString("base64")}`;
    return { method: "POST", path: "/oauth/introspect", authorization, type: FORM, body: `token=${token}` };
  },
});

export const me: Figure = ownPath({
  name: "me",
  shows: "GET /auth/me",
  atMost: 0.5,
  ofPeers: "me",
  requestOf: (token) => ({ method: "GET", path: "/auth/me", authorization: `Bearer ${token}` }),
});

/** Sessions of people, in turn. */
function ownPath({
  name,
  shows,
  atMost,
  ofPeers,
  requestOf,
}: Pick<Figure, "name" | "shows"> & {
  atMost: number;
  ofPeers: "check" | "me";
  requestOf: (token: string) => Parameters<typeof writeRequests>[2][number];
}): Figure {
  return {
    name,
    shows,
    quantities: [{ name: "", unit: "ms CPU", aims: [{ atMost }] }],
    async prepare(bench) {
      const subjects = await eachSystem(bench, async (system) => {
        const people = await newPeople(system, PEOPLE);
        const requests = people.map(({ accessToken }) => requestOf(accessToken));
        const file = await writeRequests(bench.folder, `${name}-${system.version.name}`, requests);
        return [
          oursOf(system, async () =>
            cpuEach(system, async () => (await sendLoad(system.url, file, SAMPLE_S)).requests, MS),
          ),
        ];
      });
      const load = { calls: REFRESHES, inParallel: IN_PARALLEL };
      const { references } = await identityReferences(bench, ofPeers, load);
      return { subjects: [...subjects, ...references] };
    },
  };
}
