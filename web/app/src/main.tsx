// Starts the page: the state from the address (or a recording), the engine, and the address from the state.
import { render } from "preact";
import { App, NotStarted } from "./app";
import { askKey } from "./ask_key";
import { fromHash, toHash } from "./hash";
import { get, set, subscribe } from "./state";
import { chooseTransport } from "./transport/choose";
import { Client, setClient } from "./transport/client";
import { kStops } from "./tour";
import { recordingOf } from "./transport/recording";
import "./style.css";

const kHashDelay = 250; // milliseconds: browsers limit how often the address may change

const page = document.getElementById("app")!;

async function start(): Promise<void> {
  const recording = recordingOf(document);
  set(fromHash(recording?.hash ?? location.hash));
  // The address has no pad, on which the tour begins.
  if (kStops[get().tour]?.state.pad) set({ pad: true });
  setClient(new Client(await chooseTransport(askKey), (lost) => set({ lost })));
  if (!recording) {
    let timer = 0,
      { view } = get();
    const write = () => {
      // A new view is a new entry of the history, so that Back leads to the last one.
      const how = get().view === view ? "replaceState" : "pushState",
        to = toHash(get());
      ({ view } = get());
      if (to !== location.hash) history[how](null, "", location.pathname + location.search + to);
    };
    if (get().notice) write(); // the address named what is not there
    subscribe(() => {
      clearTimeout(timer);
      timer = window.setTimeout(write, kHashDelay);
    });
    addEventListener("hashchange", () => {
      const { picture } = get(),
        next = fromHash(location.hash);
      // A picture of the reader's own is not in the address.
      ({ view } = next);
      set(picture?.kind === "file" && !next.picture ? { ...next, picture } : next);
    });
  }
  render(<App />, page);
}

start().catch((error: Error) => render(<NotStarted error={error} />, page));
