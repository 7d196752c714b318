import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Session, SessionContext } from "../session/session.ts";
import { Mishap } from "../ui/mishap.tsx";
import { startTexts } from "../ui/text.ts";
import { applyTheme } from "../ui/theme.ts";
import { createPortalRouter } from "./router.tsx";
import { loadTexts } from "./text.ts";

applyTheme();
const session = new Session();
// An application of another origin has begun the session for which it asks. On most other first visits there is none.
const always = location.pathname.startsWith("/account/approvals/");
// A failed start is a login page, whose form says what is wrong.
await Promise.all([startTexts(loadTexts), session.resume({ always }).catch(() => undefined)]);

const root = document.getElementById("app");
if (root === null) throw new Error("index.html has no #app");
createRoot(root).render(
  <StrictMode>
    <Mishap>
      <SessionContext value={session}>
        <RouterProvider router={createPortalRouter(session)} />
      </SessionContext>
    </Mishap>
  </StrictMode>,
);
