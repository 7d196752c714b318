import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Button } from "../ui/button.tsx";
import { Notice } from "../ui/notice.tsx";
import { useText } from "./text.ts";

interface Column<Row> {
  head: string;
  cell: (row: Row) => ReactNode;
  kind?: "main" | "time" | "number" | "acts";
}

/** Rows with their columns; on narrow screens each row is a card. The roles outlive the display of a card. */
export function Table<Row>({
  name,
  columns,
  rows,
  keyOf,
  empty,
}: {
  name: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  empty: string;
}) {
  if (rows.length === 0) return <p className="muted">{empty}</p>;
  return (
    // biome-ignore-start lint/a11y/noRedundantRoles: `display` takes the implied ones away.
    <table className="table" role="table" aria-label={name}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ head, kind }) => (
            <th key={head} role="columnheader" scope="col" className={kind}>
              <span className={kind === "acts" ? "hidden" : undefined}>{head}</span>
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <tr key={keyOf(row)} role="row">
            {columns.map(({ head, cell, kind }) => (
              <td key={head} role="cell" data-head={head} className={kind}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
    // biome-ignore-end lint/a11y/noRedundantRoles: see above.
  );
}

/** Of a list by cursors. */
export function pages<Page extends { nextCursor: string | null }>(
  read: (cursor: { cursor?: string }) => Promise<Page>,
) {
  return {
    initialPageParam: "",
    // It asks only when a person does: pages that they have scrolled away from would ask in their name.
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    queryFn: ({ pageParam }: { pageParam: string }) => read(pageParam === "" ? {} : { cursor: pageParam }),
    getNextPageParam: ({ nextCursor }: Page) => nextCursor,
  };
}

/** Reads the next page below. */
export function More({
  query,
}: {
  query: Pick<
    UseInfiniteQueryResult,
    "hasNextPage" | "isFetchingNextPage" | "isFetchNextPageError" | "fetchNextPage"
  >;
}) {
  const t = useText();
  if (!query.hasNextPage) return null;
  return (
    <>
      {query.isFetchNextPageError && <Notice isBad>{t("states.failed")}</Notice>}
      <div className="buttons more">
        <Button
          kind="quiet"
          size="slim"
          isPending={query.isFetchingNextPage}
          onClick={() => void query.fetchNextPage()}
        >
          {t("list.more")}
        </Button>
      </div>
    </>
  );
}
