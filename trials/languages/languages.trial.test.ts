import { flowsOnOneSystem } from "#tests/support/system/one-system.ts";

/** Each builds a package or a program of another language, where the machine has its tools. */
flowsOnOneSystem({
  flows: {
    "clients of other languages": () => import("./other-languages.ts"),
    "the packages of all languages": () => import("./verifier-packages.ts"),
  },
});
