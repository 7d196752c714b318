import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { WebhookDelivery } from "#clients/api/generated/gatehouse.ts";
import { useMay, useSession } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { Found } from "../../ui/states.tsx";
import { wordsOfAction } from "../audit/action-field.tsx";
import { Panel } from "../panel.tsx";
import { More, pages, Table } from "../table.tsx";
import { useKnownText, useText } from "../text.ts";

const TAGS = { waiting: "warn", delivered: "quiet", given_up: "bad" };

/** Each reading stands in the audit log, so it does not repeat itself. */
export function Deliveries({ id }: { id: string }) {
  const t = useText();
  const { call } = useSession();
  const query = useInfiniteQuery({
    queryKey: ["webhooks", id, "deliveries"],
    ...pages((cursor) => call("GET /admin/webhooks/{id}/deliveries", { path: { id }, query: cursor })),
  });
  return (
    <Panel
      title={t("deliveries.title")}
      beside={
        <Button kind="quiet" size="slim" isPending={query.isFetching} onClick={() => void query.refetch()}>
          {t("system.refresh")}
        </Button>
      }
    >
      <Found query={query}>
        {({ pages: found }) => (
          <>
            <Table
              name={t("deliveries.title")}
              rows={found.flatMap(({ deliveries }) => deliveries)}
              keyOf={({ eventId }) => eventId}
              empty={t("deliveries.none")}
              columns={[
                { head: t("deliveries.event"), kind: "main", cell: (row) => <Event delivery={row} /> },
                { head: t("users.state"), cell: (row) => <State delivery={row} /> },
                { head: t("deliveries.attempts"), kind: "number", cell: ({ attempts }) => attempts },
                { head: t("deliveries.last"), time: ({ attemptedAt }) => attemptedAt },
                { head: t("deliveries.next"), time: ({ nextAttemptAt }) => nextAttemptAt },
              ]}
            />
            <More query={query} />
          </>
        )}
      </Found>
    </Panel>
  );
}

function Event({ delivery: { eventId, type, log, sequence } }: { delivery: WebhookDelivery }) {
  const t = useText();
  const may = useMay();
  const action = type.replace(/^gatehouse\.|\.v1$/g, "");
  const name = wordsOfAction(action) ?? action;
  return (
    <>
      {may("audit:read") ? (
        <Link to="/audit/$id" params={{ id: eventId }}>
          {name}
        </Link>
      ) : (
        <span>{name}</span>
      )}
      <code className="muted small" title={type}>
        {action}
      </code>
      <span className="muted small">{t("deliveries.place", { log, sequence })}</span>
    </>
  );
}

/** With what was answered, and what was wrong with it. */
function State({ delivery: { state, httpStatus, problem, durationMs } }: { delivery: WebhookDelivery }) {
  const t = useText();
  const known = useKnownText();
  return (
    <>
      <span className={`tag ${TAGS[state]}`}>{known("deliveryStates", state)}</span>
      {httpStatus !== null && (
        <span className="muted small">{t("deliveries.answer", { status: httpStatus, ms: durationMs })}</span>
      )}
      {problem !== null && <span className="muted small">{known("deliveryProblems", problem)}</span>}
    </>
  );
}
