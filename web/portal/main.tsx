import { RouterProvider } from "@tanstack/react-router";
import { startPage } from "../session/start-page.tsx";
import { createPortalRouter } from "./router.tsx";
import { loadTexts } from "./text.ts";

await startPage({
  loadTexts,
  page: (session) => <RouterProvider router={createPortalRouter(session)} />,
});
