import { Fragment } from "react";
import type { Answer } from "#clients/api/endpoint.ts";
import type { AuditEntry } from "#clients/api/generated/gatehouse.ts";
import { visible } from "../../ui/format.ts";
import { useText } from "../text.ts";

/** What somebody else wrote, which turns no other text around. */
export function Verbatim({ children = "" }: { children: string | undefined }) {
  return <bdi>{visible(children)}</bdi>;
}

/** A name of several parts, which may be broken between them. */
export function Parted({ children }: { children: string }) {
  const parts = visible(children).split(/(?<=[._@-])/);
  return (
    <bdi>
      {parts.map((part, nth) => (
        <Fragment key={nth}>
          {part}
          <wbr />
        </Fragment>
      ))}
    </bdi>
  );
}

/** The person or program, or the address that nobody has proven. */
export function Actor({ entry: { actor }, people }: { entry: AuditEntry; people: People }) {
  const t = useText();
  const { userId, claimedEmail, role } = actor ?? {};
  if (userId !== undefined && userId !== "")
    return (
      <>
        <Id id={userId} people={people} />
        {role !== undefined && role !== "" && (
          <>
            {" "}
            <span className="muted">
              <Verbatim>{role}</Verbatim>
            </span>
          </>
        )}
      </>
    );
  if (claimedEmail !== undefined && claimedEmail !== "")
    return (
      <>
        <Parted>{claimedEmail}</Parted> <span className="muted">{t("audit.onlyClaimed")}</span>
      </>
    );
  return <span className="muted">{t("audit.nobody")}</span>;
}

/** Addresses of accounts, by their ids. */
export type People = ReadonlyMap<string, string>;

/** Of an answer of the log, which names nobody to those who may not read users. */
export const peopleOf = (answers: readonly Pick<Answer<"GET /admin/audit">, "people">[]): People =>
  new Map(answers.flatMap(({ people = [] }) => people).map(({ id, email }) => [id, email]));

/** Whoever has an account by the address; anything else as it is. */
export function Id({ id, people }: { id: string; people: People }) {
  const address = people.get(id);
  return (
    <span className={address === undefined ? "id" : undefined} title={visible(id)}>
      {address === undefined ? <Verbatim>{shortId(id)}</Verbatim> : <Parted>{address}</Parted>}
    </span>
  );
}

/** A UUID that one can distinguish from others; its middle is of no use to people. */
const shortId = (id: string): string =>
  /^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(id) ? `${id.slice(0, 8)}…${id.slice(-6)}` : id;

/** Log and number. Empty in log 0, which most have alone, and while it has no number. */
export const placeOf = ({ log, sequence }: AuditEntry): string =>
  log === 0 || sequence === null ? "" : `${log}:${sequence}`;

export function Outcome({ entry }: { entry: AuditEntry }) {
  const t = useText();
  if (entry.kind === "intent") return <span className="tag plain-tag">{t("audit.begun")}</span>;
  const status = entry.httpStatus === undefined || entry.httpStatus === 0 ? "" : ` ${entry.httpStatus}`;
  switch (entry.outcome) {
    case "success":
      return <span className="tag">{t("audit.success") + status}</span>;
    case "failure":
      return <span className="tag bad">{t("audit.failure") + status}</span>;
    default:
      return <span className="tag bad">{t("audit.unknown") + status}</span>;
  }
}
