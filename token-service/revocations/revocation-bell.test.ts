import { testBellContract } from "./revocation-bell.contract.ts";
import { createMemoryBell } from "./revocation-bell.ts";

testBellContract("the bell in memory", async () => {
  const bell = createMemoryBell();
  return { here: bell, there: bell };
});
