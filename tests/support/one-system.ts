import { afterAll } from "vitest";
import { type System, startSystem } from "./system.ts";

let running: Promise<System> | undefined;

/** The system of all flows of a test file, which removes it after its last test. */
export const oneSystem = (): Promise<System> => (running ??= startSystem());

export function removeAfterAll(): void {
  afterAll(async () => {
    const system = await running;
    running = undefined;
    await system?.remove();
  });
}
