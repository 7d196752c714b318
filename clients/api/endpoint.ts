import type { Api } from "./generated/gatehouse.ts";

/** A method and a path of the API document: `DELETE /auth/sessions/{id}`. */
export type Endpoint = keyof Api;
/** What is undefined is not sent. */
type Optionals<T> = T extends unknown
  ? { [K in keyof T]: object extends Pick<T, K> ? T[K] | undefined : T[K] }
  : never;
/** Its `path`, `query` and `body`, each where there is one. */
type Given<E extends Endpoint> = {
  [P in keyof Api[E] as Exclude<P, "answer">]: Optionals<Api[E][P]>;
};
/** What its body has. */
export type Body<E extends Endpoint> = Given<E> extends { body?: infer B } ? B : never;
/** None where the endpoint demands nothing. */
export type GivenTo<E extends Endpoint> = object extends Given<E> ? [given?: Given<E>] : [given: Given<E>];
/** `data` of its answer. */
export type Answer<E extends Endpoint> = Api[E] extends { answer: infer A } ? A : never;

export interface HttpCall {
  method: string;
  /** Includes the query. */
  path: string;
  body: object | undefined;
}

interface AnyGiven {
  path?: Record<string, string>;
  query?: object;
  body?: object;
}

/** What a call of an endpoint sends. A member of the query that is undefined is left out, as JSON leaves it out of a body. */
export function httpCall<E extends Endpoint>(endpoint: E, ...[given]: GivenTo<E>): HttpCall {
  const { path: places, query, body }: AnyGiven = given ?? {};
  const [method, template] = endpoint.split(" ") as [string, string];
  const path = template.replace(/{(\w+)}/g, (_place, name) => encodeURIComponent(places?.[name] as string));
  const search = query ? `?${new URLSearchParams(JSON.parse(JSON.stringify(query)))}` : "";
  return { method, path: path + search, body };
}
