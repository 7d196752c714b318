/** A user of the demo provider. */
export interface DemoUser {
  /** `sub`. */
  id: string;
  claims: { email: string; email_verified: boolean; given_name: string; family_name: string };
}

export const DEMO_USERS: readonly DemoUser[] = [
  {
    id: "grace",
    claims: {
      email: "grace@demo.example",
      email_verified: true,
      given_name: "Grace",
      family_name: "Hopper",
    },
  },
  {
    id: "alan",
    claims: { email: "alan@demo.example", email_verified: false, given_name: "Alan", family_name: "Turing" },
  },
];

export function demoUserOf(id: string): DemoUser | undefined {
  return DEMO_USERS.find((user) => user.id === id);
}
