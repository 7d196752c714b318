import { en as shared } from "../../ui/languages/en.ts";

export const en = {
  account: {
    profile: "Your account",
    security: "Security",
    approvals: "Approvals",
    sessions: "Sessions",
    providers: "Other logins",
    console: "Console",
    logOut: "Log out",
  },
  login: {
    title: "Log in",
    email: "E-mail address",
    password: "Password",
    submit: "Log in",
    or: "or",
    passkey: "Log in with a passkey",
    provider: "Continue with {{provider}}",
    forgot: "Forgot your password?",
    helpForgot: "Set a new password",
    new: "No account yet?",
    register: "Register",
    back: "Back to the login",
    startAgain: "Cancel, and log in as somebody else",
  },
};

/** With those that every page has: each file costs a request. */
export const texts = { ...shared, ...en };
