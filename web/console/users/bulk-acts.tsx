import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import type { ManagedUser, Role } from "#clients/api/generated/gatehouse.ts";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { type Call, useMay, useSession, useUser } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { Cancel, Sheet } from "../../ui/dialog.tsx";
import { explain } from "../../ui/explain.ts";
import { ActionForm } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { ReasonField } from "../act.tsx";
import { useText } from "../text.ts";

const PARALLEL = 3;
const MAX_WAITS = 20;

interface Path {
  id: string;
}

/** The same calls as on the page of one person: each has its own entry in the audit log. */
const ACTS = {
  endSessions: {
    permission: "sessions:end",
    kind: "main",
    isNeedless: () => false,
    send: (call: Call, path: Path, reason: string): Promise<unknown> =>
      call("POST /admin/users/{id}/sessions/revoke", { path, body: { reason } }),
  },
  demandPassword: {
    permission: "users:write",
    kind: "main",
    isNeedless: ({ mustChangePassword }: ManagedUser) => mustChangePassword,
    send: (call: Call, path: Path, reason: string): Promise<unknown> =>
      call("PATCH /admin/users/{id}", { path, body: { reason, mustChangePassword: true } }),
  },
  disable: {
    permission: "users:write",
    kind: "danger",
    isNeedless: ({ status }: ManagedUser) => status === "disabled",
    send: (call: Call, path: Path, reason: string): Promise<unknown> =>
      call("PATCH /admin/users/{id}", { path, body: { reason, status: "disabled" } }),
  },
} as const;
type ActName = keyof typeof ACTS;
const ACT_NAMES = Object.keys(ACTS) as ActName[];

/** What the person may do with several accounts at once. */
export function useBulkActs(): readonly ActName[] {
  const may = useMay();
  return ACT_NAMES.filter((name) => may(ACTS[name].permission));
}

export function BulkActs({
  chosen,
  roles,
  onDone,
}: {
  chosen: readonly ManagedUser[];
  roles: readonly Role[];
  onDone: (users: readonly ManagedUser[]) => void;
}) {
  const t = useText();
  const [act, setAct] = useState<ActName>();
  const names = useBulkActs();
  return (
    <>
      {chosen.length > 0 &&
        names.map((name) => (
          <Button
            key={name}
            kind={ACTS[name].kind === "danger" ? "danger" : "quiet"}
            size="slim"
            onClick={() => setAct(name)}
          >
            {t(`${name}.name`)}
          </Button>
        ))}
      {act !== undefined && (
        <BulkSheet
          name={act}
          chosen={chosen}
          roles={roles}
          onDone={onDone}
          onClose={() => setAct(undefined)}
        />
      )}
    </>
  );
}

interface Refusal {
  user: ManagedUser;
  why: string;
}

interface Run {
  total: number;
  done: readonly ManagedUser[];
  refused: readonly Refusal[];
  isOver: boolean;
}

function BulkSheet({
  name,
  chosen: chosenNow,
  roles,
  onDone,
  onClose,
}: {
  name: ActName;
  chosen: readonly ManagedUser[];
  roles: readonly Role[];
  onDone: (users: readonly ManagedUser[]) => void;
  onClose: () => void;
}) {
  const t = useText();
  const { call } = useSession();
  const queries = useQueryClient();
  const whyNot = useWhyNot(name, roles);
  // What the list shows later does not change what is confirmed.
  const [chosen] = useState(chosenNow);
  const [run, setRun] = useState<Run>();
  const stop = useRef(new AbortController());
  useWarning(run !== undefined && !run.isOver);
  useEffect(() => () => stop.current.abort(), []);
  const skipped = chosen.flatMap((user) => whyNot(user).map((why) => ({ user, why })));
  const wanted = chosen.filter((user) => whyNot(user).length === 0);

  const act = async (reason: string) => {
    const { signal } = stop.current;
    let now: Run = { total: wanted.length, done: [], refused: [], isOver: false };
    const left = wanted.values();
    const actOn = async (user: ManagedUser) => {
      try {
        await patiently(() => ACTS[name].send(call, { id: user.id }, reason), signal);
        now = { ...now, done: [...now.done, user] };
      } catch (error) {
        // It is said at the form: nothing has happened, and the others would be refused too.
        if (now.done.length + now.refused.length === 0 && concernsAll(error)) throw error;
        if (concernsAll(error)) stop.current.abort();
        now = { ...now, refused: [...now.refused, { user, why: explain(error).message }] };
      }
      setRun(now);
    };
    // The first alone: it asks for the proof that all may need.
    for (const user of left.take(1)) await actOn(user);
    const work = async () => {
      for (const user of left) {
        if (signal.aborted) return;
        await actOn(user);
      }
    };
    await Promise.all(Array.from({ length: PARALLEL }, work));
    setRun({ ...now, isOver: true });
    onDone(now.done);
    await queries.invalidateQueries({ queryKey: ["users"] });
  };

  return (
    <Sheet title={t(`${name}.name`)} mustAnswer={run !== undefined && !run.isOver} onClose={onClose}>
      {(close) =>
        run === undefined ? (
          <>
            <p>{t(`${name}.effect`)}</p>
            <People
              title={t("bulk.wanted", { count: wanted.length })}
              people={wanted.map((user) => ({ user }))}
            />
            <People title={t("bulk.skipped", { count: skipped.length })} people={skipped} />
            {wanted.length === 0 ? (
              <Cancel onClick={close} />
            ) : (
              <ActionForm
                submit={t("bulk.submit", { count: wanted.length })}
                kind={ACTS[name].kind}
                action={({ reason = "" }) => act(reason)}
                beside={<Cancel onClick={close} />}
              >
                <ReasonField />
              </ActionForm>
            )}
          </>
        ) : (
          <Report run={run} onStop={() => stop.current.abort()} onClose={close} />
        )
      }
    </Sheet>
  );
}

function Report({ run, onStop, onClose }: { run: Run; onStop: () => void; onClose: () => void }) {
  const t = useText();
  const { total, done, refused, isOver } = run;
  const tried = done.length + refused.length;
  return (
    <>
      {isOver ? (
        <Notice isBad={done.length < total}>{t("bulk.done", { done: done.length, total })}</Notice>
      ) : (
        <>
          <progress aria-label={t("bulk.progress")} value={tried} max={total} />
          <p role="status">{t("bulk.running", { done: tried, total })}</p>
        </>
      )}
      <People title={t("bulk.refused", { count: refused.length })} people={refused} />
      {isOver && tried < total && <p>{t("bulk.stopped", { count: total - tried })}</p>}
      <div className="buttons">
        <Button kind="quiet" onClick={isOver ? onClose : onStop}>
          {t(isOver ? "bulk.close" : "bulk.stop")}
        </Button>
      </div>
    </>
  );
}

function People({
  title,
  people,
}: {
  title: string;
  people: readonly { user: ManagedUser; why?: string }[];
}) {
  if (people.length === 0) return null;
  return (
    <details>
      <summary>{title}</summary>
      <ul>
        {people.map(({ user, why }) => (
          <li key={user.id}>
            {user.email}
            {why !== undefined && <span className="muted small"> {why}</span>}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Why an account is left out; empty if it is not. */
function useWhyNot(name: ActName, roles: readonly Role[]): (user: ManagedUser) => string[] {
  const t = useText();
  const self = useUser();
  return (user) => {
    if (user.id === self.id) return [t("bulk.self")];
    const role = roles.find((each) => each.name === user.role);
    if (role?.actable === false) return [t("user.notYours", { role: role.name })];
    return ACTS[name].isNeedless(user) ? [t("bulk.needless")] : [];
  };
}

/** The reason is refused, the proof was not given, or the session has ended. */
const concernsAll = (error: unknown) =>
  error instanceof GatehouseError &&
  (error.status === 401 || ["validation_failed", "cancelled", "step_up_required"].includes(error.code));

/** Where calls come too fast, it waits as long as the gateway says. */
export async function patiently<R>(work: () => Promise<R>, signal: AbortSignal): Promise<R> {
  for (let waits = 0; ; waits += 1) {
    try {
      return await work();
    } catch (error) {
      const isFast = error instanceof GatehouseError && error.status === 429;
      if (!isFast || waits === MAX_WAITS || signal.aborted) throw error;
      await pause(Math.max(1, error.retryAfterS) * 1_000, signal);
      if (signal.aborted) throw error;
    }
  }
}

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    setTimeout(resolve, ms);
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

/** The browser asks before the tab is closed. */
function useWarning(isBusy: boolean): void {
  useEffect(() => {
    if (!isBusy) return undefined;
    const ask = (event: Event) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [isBusy]);
}
