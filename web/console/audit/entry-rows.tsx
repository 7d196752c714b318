import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { AuditEntry } from "#clients/api/generated/gatehouse.ts";
import { useMay } from "../../session/session.ts";
import { Sheet } from "../../ui/dialog.tsx";
import { visible } from "../../ui/format.ts";
import { Table } from "../table.tsx";
import { useText } from "../text.ts";
import { When } from "../when.tsx";
import { wordsOfAction } from "./action-field.tsx";
import { EntryFacts } from "./entry-facts.tsx";
import { Actor, Id, Outcome, Parted, type People, placeOf, Verbatim } from "./entry-text.tsx";

/** A call is one row: its outcome, or its intent while it has none. */
export function callsOf(entries: readonly AuditEntry[]): AuditEntry[] {
  const ended = new Set(entries.filter(({ kind }) => kind === "outcome").map(({ callId }) => callId));
  return entries.filter(({ kind, callId }) => kind !== "intent" || !ended.has(callId));
}

/** Entries as the server lists them, but that each call is one row. Who may read the whole log opens one to have it proven. */
export function EntryRows({
  entries,
  caption,
  empty,
  people,
}: {
  entries: readonly AuditEntry[];
  caption: string;
  empty: string;
  people: People;
}) {
  const t = useText();
  const [opened, setOpened] = useState<AuditEntry>();
  const opens = useMay()("audit:read");
  return (
    <>
      <Table
        name={caption}
        rows={callsOf(entries)}
        keyOf={({ id }) => id}
        empty={empty}
        columns={[
          {
            head: t("audit.time"),
            kind: "time",
            cell: (entry) => (
              <>
                <When time={entry.occurredAt} isExact />
                {placeOf(entry) !== "" && <span className="why muted small">{placeOf(entry)}</span>}
              </>
            ),
          },
          {
            head: t("audit.action"),
            kind: "main",
            cell: (entry) => (
              <>
                {opens ? (
                  <Link to="/audit/$id" params={{ id: entry.id }}>
                    <Parted>{entry.action}</Parted>
                  </Link>
                ) : (
                  <button type="button" className="plain" onClick={() => setOpened(entry)}>
                    <Parted>{entry.action}</Parted>
                  </button>
                )}
                <span className="why muted small">{wordsOfAction(entry.action)}</span>
              </>
            ),
          },
          { head: t("audit.actor"), cell: (entry) => <Actor entry={entry} people={people} /> },
          {
            head: t("audit.resource"),
            cell: ({ resource }) =>
              resource !== "" && (
                <span className="resource">
                  <Id id={resource} people={people} />
                </span>
              ),
          },
          {
            head: t("audit.outcome"),
            cell: (entry) => (
              <>
                <Outcome entry={entry} />
                {entry.reason !== undefined && (
                  <span className="why muted small">
                    <Verbatim>{entry.reason}</Verbatim>
                  </span>
                )}
              </>
            ),
          },
        ]}
      />
      {opened !== undefined && (
        <Sheet title={visible(opened.action)} onClose={() => setOpened(undefined)}>
          {() => <EntryFacts entry={opened} people={people} />}
        </Sheet>
      )}
    </>
  );
}
