import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { Button } from "./button.tsx";
import { explain } from "./explain.ts";
import { Loading, Notice } from "./notice.tsx";
import { textOf } from "./text.ts";

/** What a query has found, or that it is loading, or why it failed. */
export function Found<T>({
  query,
  children,
}: {
  query: Pick<UseQueryResult<T>, "data" | "error" | "isPending" | "fetchStatus" | "refetch">;
  children: (found: T) => ReactNode;
}) {
  const isForbidden = query.error instanceof GatehouseError && query.error.status === 403;
  if (query.data !== undefined && !isForbidden) return <>{children(query.data)}</>;
  if (query.isPending && query.fetchStatus !== "paused") return <Loading />;
  return (
    <div className="state">
      <Notice isBad>
        <strong>{textOf("states.failed")}</strong>
        {query.error !== null && (
          <span>{isForbidden ? textOf("states.forbidden") : explain(query.error).message}</span>
        )}
      </Notice>
      <Button kind="quiet" size="slim" onClick={() => void query.refetch()}>
        {textOf("states.again")}
      </Button>
    </div>
  );
}

/** A list with its rows, or what stands for no row. */
export function Rows<T extends { id: string }>({
  rows,
  empty,
  row,
}: {
  rows: readonly T[];
  empty: string;
  row: (item: T) => ReactNode;
}) {
  if (rows.length === 0) return <p className="muted">{empty}</p>;
  return (
    <ul className="rows">
      {rows.map((item) => (
        <li key={item.id}>{row(item)}</li>
      ))}
    </ul>
  );
}
