import { createClient } from "/gatehouse-browser.js";
import { GATEWAY } from "/gateway.js";

const client = createClient({ url: GATEWAY });
const find = (selector) => document.querySelector(selector);

/** What went wrong is shown, and nothing else is changed. */
async function attempt(work) {
  find("#problem").textContent = "";
  await work().catch(({ message }) => {
    find("#problem").textContent = message;
  });
}

async function call(path, init) {
  const response = await client.fetch(path, init);
  const body = response.status === 204 ? {} : await response.json();
  if (!response.ok) throw new Error(body.message);
  return body;
}

async function show(user) {
  find("#login").hidden = user !== undefined;
  find("main").hidden = user === undefined;
  find("#user").textContent = user?.email ?? "";
  find("ul").replaceChildren();
  if (user !== undefined) await list();
}

async function list() {
  const { orders } = await call("/orders");
  const lines = orders.map(({ id, item, quantity }) => {
    const line = document.createElement("li");
    line.textContent = `${quantity} × ${item} `;
    if (client.user?.role === "ADMIN") line.append(deleteButton(id));
    return line;
  });
  find("ul").replaceChildren(...lines);
}

function deleteButton(id) {
  const button = document.createElement("button");
  button.textContent = "Delete";
  button.onclick = () => attempt(() => call(`/orders/${id}`, { method: "DELETE" }).then(list));
  return button;
}

/** Its fields by name, when it is sent. */
function onSubmit(selector, work) {
  find(selector).onsubmit = (event) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.target));
    attempt(() => work(fields).then(() => event.target.reset()));
  };
}

onSubmit("#login", async (credentials) => {
  let result = await client.login(credentials);
  if (result.step === "mfa")
    result = await client.completeMfa({ tempToken: result.tempToken, code: prompt("Second factor") ?? "" });
  if (result.step !== "done") throw new Error(`Log in at ${GATEWAY}/account first: ${result.step}`);
  await show(result.user);
});
onSubmit("#order", async ({ item, quantity }) => {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ item, quantity: Number(quantity) });
  await call("/orders", { method: "POST", headers, body });
  await list();
});
find("#logout").onclick = () => attempt(() => client.logout());
// Nothing of the former user is left.
client.onSessionEnd(() => location.reload());
await attempt(async () => show(await client.resume()));
