import { RouterProvider } from "@tanstack/react-router";
import { startPage } from "../session/start-page.tsx";
import { createPortalRouter } from "./router.tsx";
import { loadTexts } from "./text.ts";

await startPage({
  loadTexts,
  // An application of another origin has begun the session for which it asks. On most other first visits there is none.
  always: location.pathname.startsWith("/account/approvals/"),
  page: (session) => <RouterProvider router={createPortalRouter(session)} />,
});
