import { useInfiniteQuery } from "@tanstack/react-query";
import { useLocation, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useMay, useSession } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Found } from "../../ui/states.tsx";
import { useText } from "../text.ts";
import { AuditExport } from "./audit-export.tsx";
import { type AuditSearch, filtersOf, isUuid, withoutTimes } from "./audit-search.ts";
import { EntryRows } from "./entry-rows.tsx";
import { peopleOf } from "./entry-text.tsx";
import { Filters } from "./filters.tsx";
import { Follow } from "./follow.tsx";
import { LogLine } from "./log-line.tsx";
import "./audit.css";

export function AuditPage() {
  const t = useText();
  const readsAll = useMay()("audit:read");
  const search = useSearch({ from: "/audit" });
  const navigate = useNavigate({ from: "/audit" });
  const [isExporting, setExporting] = useState(false);
  // Addresses of people stay with the entry of the history: they are in no address of a page.
  const idsOf = useLocation({ select: ({ state }) => state.idsOf });
  const go = (next: AuditSearch, ids = idsOf) =>
    void navigate({ search: next, state: (old) => ({ ...old, ...(ids && { idsOf: ids }) }) });
  const isLive = readsAll && search.live === true;
  return (
    <>
      <PageTitle lead={t(readsAll ? "audit.lead" : "audit.leadOne")}>{t("audit.title")}</PageTitle>
      <div className="stack">
        {readsAll && <LogLine />}
        <Filters search={isLive ? withoutTimes(search) : search} idsOf={idsOf} onSearch={go} />
        {readsAll && (
          <div className="buttons">
            <Button
              kind="quiet"
              size="slim"
              aria-pressed={isLive}
              onClick={() => {
                const { live: _live, ...filters } = search;
                go(isLive ? filters : { ...withoutTimes(filters), live: true });
              }}
            >
              {t(isLive ? "audit.stopFollowing" : "audit.follow")}
            </Button>
            {!isLive && (
              <Button kind="quiet" size="slim" onClick={() => setExporting(true)}>
                {t("audit.export")}
              </Button>
            )}
          </div>
        )}
        {isLive ? (
          <Follow key={JSON.stringify(filtersOf(search))} search={withoutTimes(search)} />
        ) : (
          <Results search={search} readsAll={readsAll} />
        )}
      </div>
      {isExporting && <AuditExport search={search} onClose={() => setExporting(false)} />}
    </>
  );
}

function Results({ search, readsAll }: { search: AuditSearch; readsAll: boolean }) {
  const t = useText();
  const { call } = useSession();
  const names = useMay()("users:read") && ({ people: "true" } as const);
  const isAllowed = readsAll || namesOnePerson(search);
  const query = useInfiniteQuery({
    queryKey: ["audit", "list", search],
    queryFn: ({ pageParam }) =>
      call("GET /admin/audit", {
        query: { ...filtersOf(search), ...names, ...(pageParam !== "" && { cursor: pageParam }) },
      }),
    initialPageParam: "",
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    enabled: isAllowed,
    // Each search is an entry of the log, and back shows what was there.
    staleTime: Infinity,
  });
  if (!isAllowed) return <Notice>{t("audit.nameOne")}</Notice>;
  return (
    <Found query={query}>
      {({ pages }) => {
        const entries = pages.flatMap((page) => page.entries);
        return (
          <>
            <EntryRows
              entries={entries}
              people={peopleOf(pages)}
              caption={t("audit.title")}
              empty={t("audit.none")}
            />
            {query.isFetchNextPageError && <Notice isBad>{t("states.failed")}</Notice>}
            <div className="buttons">
              {query.hasNextPage && (
                <Button
                  kind="quiet"
                  isPending={query.isFetchingNextPage}
                  onClick={() => void query.fetchNextPage()}
                >
                  {t("audit.older")}
                </Button>
              )}
              <Button kind="quiet" isPending={query.isRefetching} onClick={() => void query.refetch()}>
                {t("audit.refresh")}
              </Button>
            </div>
          </>
        );
      }}
    </Found>
  );
}

/** As the API demands of `audit:read:user`. */
const namesOnePerson = ({ actor, action, resource }: AuditSearch) =>
  isUuid(actor) || (action === "user.login_failed" && isUuid(resource));
