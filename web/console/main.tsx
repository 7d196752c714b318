import { RouterProvider } from "@tanstack/react-router";
import { startPage } from "../session/start-page.tsx";
import { noteAnnouncedKey } from "./audit/log-memory.ts";
import { createConsoleRouter } from "./router.tsx";
import { loadTexts } from "./text.ts";

noteAnnouncedKey();
await startPage({
  loadTexts,
  page: (session) => <RouterProvider router={createConsoleRouter(session)} />,
});
