import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import { Button } from "../ui/button.tsx";
import { Notice } from "../ui/notice.tsx";
import { useText } from "./text.ts";

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
