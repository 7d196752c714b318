import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Activity as Item } from "#clients/api/generated/gatehouse.ts";
import { useSession } from "../../../session/session.ts";
import { Button } from "../../../ui/button.tsx";
import { timeText } from "../../../ui/format.ts";
import { Section } from "../../../ui/frame.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { Found, Rows } from "../../../ui/states.tsx";
import { useLanguage } from "../../../ui/text.ts";
import { useDeviceText } from "../../device-text.ts";
import { useText } from "../../text.ts";

export function Activity() {
  const t = useText();
  const { call } = useSession();
  const query = useInfiniteQuery({
    queryKey: ["activity"],
    queryFn: ({ pageParam }) =>
      call("GET /auth/me/activity", { query: { ...(pageParam !== "" && { cursor: pageParam }) } }),
    initialPageParam: "",
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
  });
  return (
    <Section title={t("activity.title")} lead={t("activity.lead")}>
      <Found query={query}>
        {({ pages }) => (
          <Rows
            rows={pages.flatMap(({ activity }) => activity)}
            // A page may be empty before the last one.
            empty={query.hasNextPage ? "" : t("activity.none")}
            row={(item) => <Happened item={item} />}
          />
        )}
      </Found>
      {query.isFetchNextPageError && <Notice isBad>{t("states.failed")}</Notice>}
      {query.hasNextPage && (
        <div className="buttons">
          <Button
            kind="quiet"
            size="slim"
            isPending={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            {t("activity.more")}
          </Button>
        </div>
      )}
      <p className="muted way">
        {t("activity.notYou")} <Link to="/sessions">{t("sessions.live")}</Link>
      </p>
    </Section>
  );
}

/** What strangers call their browser shows nothing but their text. */
function Happened({ item: { action, by, occurredAt, ip, userAgent } }: { item: Item }) {
  const t = useText();
  const language = useLanguage();
  const deviceText = useDeviceText();
  return (
    <div className="what">
      <strong>
        {t(`activity.kinds.${action}`)}
        {by === "support" && <span className="tag">{t("activity.support")}</span>}
      </strong>
      <span className="muted small">
        {timeText(occurredAt, language)}
        {userAgent !== "" && (
          <>
            {" · "}
            <bdi>{deviceText(userAgent)}</bdi>
          </>
        )}
        {ip !== "" && ` · ${ip}`}
      </span>
    </div>
  );
}
