export const TEXTS = ["actor", "action", "resource", "requestId", "from", "to"] as const;
const OUTCOMES = ["success", "failure", "unknown"] as const;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const ACTOR = /^(?:client|operator|auditor):[A-Za-z0-9._-]{1,64}$/;

type TextFilter = (typeof TEXTS)[number];
/** In the address of the page, so never an e-mail address. Times are RFC 3339. */
export type AuditSearch = { [name in TextFilter]?: string } & {
  outcome?: (typeof OUTCOMES)[number];
  /** Readings and refreshes too. */
  reads?: true;
  /** Following the log in place of searching it. */
  live?: true;
};

export const isUuid = (text: string | undefined): boolean => UUID.test(text ?? "");

/** What of an address can be used. */
export function readSearch(given: Record<string, unknown>): AuditSearch {
  const texts = TEXTS.flatMap((name) => {
    const value = String(given[name] ?? "").trim();
    return value === "" || problemOf(name, value) !== undefined ? [] : [[name, value] as const];
  });
  const outcome = OUTCOMES.find((name) => name === given.outcome);
  return {
    ...Object.fromEntries(texts),
    ...(outcome !== undefined && { outcome }),
    ...(given.reads === true && { reads: true }),
    ...(given.live === true && { live: true }),
  };
}

/** They take the e-mail address of a person, and search with the id. */
export const PERSON_FILTERS = ["actor", "resource"] as const;

/** The key of a text that says why a filter cannot be used. */
export function problemOf(name: TextFilter, value: string) {
  if (value === "") return undefined;
  if (value.includes("@")) return "audit.noAddress";
  if (name === "actor" && !isUuid(value) && !ACTOR.test(value)) return "audit.actorForm";
  if (name === "requestId" && !isUuid(value)) return "audit.requestForm";
  if ((name === "from" || name === "to") && Number.isNaN(Date.parse(value))) return "form.invalid";
  return value.length > 200 ? "form.invalid" : undefined;
}

/** Sent to the API. Who names an action or a request wants all of it. */
export function filtersOf({ live: _page, reads, ...filters }: AuditSearch) {
  const isNamed = filters.action !== undefined || filters.requestId !== undefined;
  return { ...filters, ...(reads !== true && !isNamed && { hide: "routine" as const }) };
}

/** Following shows entries as they come: neither times nor a call that is over choose among them. */
export function withoutTimes({
  from: _from,
  to: _to,
  requestId: _request,
  ...rest
}: AuditSearch): AuditSearch {
  return rest;
}
