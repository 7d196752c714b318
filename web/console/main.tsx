import { RouterProvider } from "@tanstack/react-router";
import { startPage } from "../session/start-page.tsx";
import { createConsoleRouter } from "./router.tsx";
import { loadTexts } from "./text.ts";

await startPage({
  loadTexts,
  page: (session) => <RouterProvider router={createConsoleRouter(session)} />,
});
