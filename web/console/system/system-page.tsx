import { useReading } from "../../session/reading.tsx";
import { Button } from "../../ui/button.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Found } from "../../ui/states.tsx";
import { Copyable } from "../copyable.tsx";
import { Panel } from "../panel.tsx";
import { Table } from "../table.tsx";
import { useKnownText, useText } from "../text.ts";
import { When } from "../when.tsx";

const EVERY_MS = 15_000;
const RUNBOOKS = "docs/operations/runbooks";

export function SystemPage() {
  const t = useText();
  return (
    <>
      <PageTitle lead={t("system.lead")}>{t("system.title")}</PageTitle>
      <div className="panels">
        <Health />
        <Keys />
      </div>
    </>
  );
}

function Health() {
  const t = useText();
  const known = useKnownText();
  const query = useReading({
    queryKey: ["health"],
    read: (call) => call("GET /admin/health"),
    refetchInterval: EVERY_MS,
  });
  return (
    <Panel
      title={t("system.health")}
      beside={
        <Button kind="quiet" size="slim" isPending={query.isFetching} onClick={() => void query.refetch()}>
          {t("system.refresh")}
        </Button>
      }
    >
      <Found query={query}>
        {({ services }) => (
          <>
            {query.isError && <Notice isBad>{t("system.stale")}</Notice>}
            {services.some(({ name, ready }) => !ready && name === "redis") && (
              <Notice isBad>
                <strong>{t("system.redisAway")}</strong>
                <Copyable name={t("system.runbook")} text={`${RUNBOOKS}/GatehouseRedisAway.md`} />
              </Notice>
            )}
            {services.some(({ name, ready }) => !ready && name !== "redis") && (
              <Notice isBad>
                <strong>{t("system.notReady")}</strong>
                <span>{t("system.notReadyDo")}</span>
                <Copyable name={t("system.runbook")} text={`${RUNBOOKS}/GatehouseNotReady.md`} />
              </Notice>
            )}
            <Table
              name={t("system.health")}
              rows={services}
              keyOf={({ name }) => name}
              empty={t("system.noServices")}
              columns={[
                {
                  head: t("system.service"),
                  kind: "main",
                  cell: ({ name }) => (
                    <>
                      <span>{name}</span>
                      <span className="muted small">{known("services", name)}</span>
                    </>
                  ),
                },
                {
                  head: t("users.state"),
                  cell: ({ ready }) =>
                    ready ? (
                      <span className="tag good">{t("system.ready")}</span>
                    ) : (
                      <span className="tag bad">{t("system.away")}</span>
                    ),
                },
                {
                  head: t("system.latency"),
                  kind: "number",
                  cell: ({ latencyMs }) => t("system.ms", { count: latencyMs }),
                },
              ]}
            />
            <p className="muted small">
              {t("system.asked")} <When time={new Date(query.dataUpdatedAt).toISOString()} isExact />.{" "}
              {t("system.oneReplica")}
            </p>
          </>
        )}
      </Found>
    </Panel>
  );
}

/** Each reading stands in the audit log, so it does not repeat itself. */
function Keys() {
  const t = useText();
  const known = useKnownText();
  const query = useReading({
    queryKey: ["keys"],
    read: (call) => call("GET /admin/keys"),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Panel title={t("system.keys")}>
      <Found query={query}>
        {({ keys }) => (
          <>
            {!keys.some(({ state }) => state === "active") && (
              <Notice isBad>
                <strong>{t("system.noKey")}</strong>
                <Copyable name={t("system.runbook")} text={`${RUNBOOKS}/GatehouseSigningKeyOld.md`} />
              </Notice>
            )}
            <Table
              name={t("system.keys")}
              rows={keys}
              keyOf={({ id }) => id}
              empty={t("system.noKeys")}
              columns={[
                {
                  head: t("system.key"),
                  kind: "main",
                  cell: ({ id, algorithm }) => (
                    <>
                      <code className="cut" title={id}>
                        {id}
                      </code>
                      <span className="muted small">{algorithm}</span>
                    </>
                  ),
                },
                {
                  head: t("users.state"),
                  cell: ({ state }) => (
                    <span className={`tag ${KEY_TAGS[state]}`}>{known("keyStates", state)}</span>
                  ),
                },
                { head: t("clients.created"), time: ({ createdAt }) => createdAt },
                { head: t("system.activated"), time: ({ activatedAt }) => activatedAt },
                { head: t("system.retired"), time: ({ retiredAt }) => retiredAt },
              ]}
            />
            <p className="muted small">{t("system.keysDo")}</p>
          </>
        )}
      </Found>
    </Panel>
  );
}

const KEY_TAGS = { active: "good", next: "", retired: "quiet", revoked: "bad", unknown: "quiet" } as const;
