import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Button } from "../ui/button.tsx";
import { Notice } from "../ui/notice.tsx";
import { useText } from "./text.ts";
import { When } from "./when.tsx";

/** `time` is shown as a moment; `never` stands where there is none. */
type Column<Row> = { head: string } & (
  | { kind?: "main" | "time" | "number" | "acts"; cell: (row: Row) => ReactNode }
  | { time: (row: Row) => string | null; never?: string }
);

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
  empty: ReactNode;
}) {
  if (rows.length === 0) return <div className="muted">{empty}</div>;
  return (
    // biome-ignore-start lint/a11y/noRedundantRoles: `display` takes the implied ones away.
    <table className="table" role="table" aria-label={name}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map((column) => (
            <th key={column.head} role="columnheader" scope="col" className={kindOf(column)}>
              <span className={kindOf(column) === "acts" ? "hidden" : undefined}>{column.head}</span>
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <tr key={keyOf(row)} role="row">
            {columns.map((column) => (
              <td key={column.head} role="cell" data-head={column.head} className={kindOf(column)}>
                {cellOf(column, row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
    // biome-ignore-end lint/a11y/noRedundantRoles: see above.
  );
}

const kindOf = <Row,>(column: Column<Row>) => ("time" in column ? "number" : column.kind);

function cellOf<Row>(column: Column<Row>, row: Row): ReactNode {
  if (!("time" in column)) return column.cell(row);
  const time = column.time(row);
  return time === null ? (column.never ?? "–") : <When time={time} />;
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
