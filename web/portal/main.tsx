import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Mishap } from "../ui/mishap.tsx";
import { startTexts } from "../ui/text.ts";
import { applyTheme } from "../ui/theme.ts";
import { createSessionClient } from "./client.ts";
import { createPortalRouter } from "./router.tsx";
import { Session, SessionContext } from "./session.ts";
import { loadTexts } from "./text.ts";

applyTheme();
const session = new Session(createSessionClient());
// A failed start is a login page, whose form says what is wrong.
await Promise.all([startTexts(loadTexts), session.resume().catch(() => undefined)]);

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
