import { randomUUID } from "node:crypto";
import { accountTour } from "./account-tour.ts";

// node clients/examples/typescript-client/main.ts http://localhost:8080

const [baseUrl = "http://localhost:8080"] = process.argv.slice(2);
const newUser = {
  email: `ada.${randomUUID()}@example.com`,
  password: "Correct-Horse-42",
  firstName: "Ada",
  lastName: "Lovelace",
};
console.log(await accountTour(baseUrl, newUser));
