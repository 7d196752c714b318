import { Component, type ReactNode, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Button } from "../ui/button.tsx";
import { Notice } from "../ui/notice.tsx";
import { type LoadTexts, startTexts, textOf } from "../ui/text.ts";
import { applyTheme } from "../ui/theme.ts";
import { Session, SessionContext } from "./session.ts";

interface Start {
  loadTexts: LoadTexts;
  page: (session: Session) => ReactNode;
}

/** What every page does first. Without a session, the page leads to the login, whose form says what is wrong. */
export async function startPage({ loadTexts, page }: Start): Promise<void> {
  applyTheme();
  const session = new Session();
  // The browser has kept the page, and shows it again: it may not have heard that the person has left.
  addEventListener("pageshow", ({ persisted }) => {
    if (persisted && session.account !== undefined) void session.loadAgain();
  });
  await Promise.all([startTexts(loadTexts), session.resume().catch(() => undefined)]);
  const root = document.getElementById("app");
  if (root === null) throw new Error("index.html has no #app");
  createRoot(root).render(
    <StrictMode>
      <Mishap>
        <SessionContext value={session}>{page(session)}</SessionContext>
      </Mishap>
    </StrictMode>,
  );
}

/** Instead of a page whose code has failed. */
class Mishap extends Component<{ children: ReactNode }, { hasFailed: boolean }> {
  override state = { hasFailed: false };

  static getDerivedStateFromError() {
    return { hasFailed: true };
  }

  override render() {
    if (!this.state.hasFailed) return this.props.children;
    return (
      <main className="alone stack">
        <Notice isBad>{textOf("states.crashed")}</Notice>
        <Button kind="quiet" onClick={() => location.reload()}>
          {textOf("states.reload")}
        </Button>
      </main>
    );
  }
}
