// Asks for the server's API key in a dialog.

/** The key, or null if the dialog was closed. `rejected`: a key was given and refused. */
export function askKey(rejected: boolean): Promise<string | null> {
  const dialog = document.createElement("dialog");
  dialog.className = "key";
  dialog.setAttribute("aria-labelledby", "key-title");
  const form = document.createElement("form"),
    title = document.createElement("h2"),
    text = document.createElement("p");
  form.method = "dialog";
  title.id = "key-title";
  title.textContent = "This server asks for an API key";
  text.textContent = rejected ? "The server refused that key." : "It is kept for this tab only.";
  if (rejected) text.className = "problem";
  const label = document.createElement("label"),
    input = document.createElement("input");
  label.append("API key", input);
  input.type = "password";
  input.autocomplete = "off";
  input.required = true;
  const row = document.createElement("div"),
    cancel = document.createElement("button"),
    send = document.createElement("button");
  row.className = "row";
  cancel.type = "button";
  cancel.textContent = "Cancel";
  cancel.onclick = () => dialog.close("");
  send.value = "send";
  send.className = "main";
  send.textContent = "Continue";
  row.append(cancel, send);
  form.append(title, text, label, row);
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "send" ? input.value.trim() || null : null);
    });
  });
}
