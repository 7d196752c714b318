import { z } from "zod";
import type { Gatehouse } from "./gatehouse.ts";
import { runMany } from "./workbench.ts";

const PASSWORD = "correct horse battery";
const IN_PARALLEL = 4;
const answerSchema = z.object({ data: z.object({ accessToken: z.string(), refreshToken: z.string() }) });

/** A registered account with a session. */
export interface Person {
  email: string;
  accessToken: string;
  refreshToken: string;
  /** By which its device is known. */
  device: string;
}

let registered = 0;

/** Registers accounts and logs each in, through the gateway. */
export async function newPeople(system: Gatehouse, count: number): Promise<Person[]> {
  const people: Person[] = [];
  await runMany(count, IN_PARALLEL, async () => {
    registered += 1;
    const person = {
      email: `bench-${registered}@example.com`,
      accessToken: "",
      refreshToken: "",
      device: "new",
    };
    const names = { firstName: "Ada", lastName: "Lovelace" };
    await post(system, "/auth/register", { email: person.email, password: PASSWORD, ...names });
    await logIn(system, person);
    people.push(person);
  });
  return people;
}

export async function logIn(system: Gatehouse, person: Person): Promise<void> {
  const { email, device } = person;
  const answer = await post(
    system,
    "/auth/login",
    { email, password: PASSWORD },
    { "gatehouse-device": device },
  );
  Object.assign(person, answerSchema.parse(await answer.json()).data);
  person.device = answer.headers.get("gatehouse-device") ?? device;
}

export async function refresh(system: Gatehouse, person: Person): Promise<void> {
  const answer = await post(system, "/auth/refresh", { refreshToken: person.refreshToken });
  Object.assign(person, answerSchema.parse(await answer.json()).data);
}

async function post({ url }: Gatehouse, path: string, body: object, headers = {}): Promise<Response> {
  const answer = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(20_000),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer;
}
