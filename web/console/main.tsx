import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Session, SessionContext } from "../session/session.ts";
import { Mishap } from "../ui/mishap.tsx";
import { startTexts } from "../ui/text.ts";
import { applyTheme } from "../ui/theme.ts";
import { createConsoleRouter } from "./router.tsx";
import { loadTexts } from "./text.ts";

applyTheme();
const session = new Session();
// Without a session, the guard of the pages leads to the login.
await Promise.all([startTexts(loadTexts), session.resume({ always: true }).catch(() => undefined)]);

const root = document.getElementById("app");
if (root === null) throw new Error("index.html has no #app");
createRoot(root).render(
  <StrictMode>
    <Mishap>
      <SessionContext value={session}>
        <RouterProvider router={createConsoleRouter(session)} />
      </SessionContext>
    </Mishap>
  </StrictMode>,
);
