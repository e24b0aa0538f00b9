// The page of `qkv attend -o out.html`: the explorer's view of attention over data inside the page.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { set, useStore } from "../state";
import { Client, setClient } from "../transport/client";
import { ThemeButton } from "../ui/theme";
import { AttentionView } from "../views/attention";
import { benchOf, firstState, readPage, type Page } from "./facts";
import "../style.css";

function Attend({ page }: { page: Page }) {
  const s = useStore(),
    { facts } = page;
  useEffect(() => void (document.title = `Attention: ${facts.title}`), []);
  const rollout = facts.layers.length === 1 && facts.layers[0].startsWith("rollout");
  return (
    <>
      <header class="top">
        <span class="brand" title={facts.title}>
          <b>{facts.title}</b>
        </span>
        <span class="note">
          {facts.model}, {facts.grid[0]} × {facts.grid[1]} patches
        </span>
        <span class="space" />
        <ThemeButton theme={s.theme} />
      </header>
      <main id="main" tabIndex={-1}>
        <AttentionView
          bench={benchOf(page, s)}
          title={
            rollout ? `Rollout of blocks ${facts.layers[0].replace("rollout ", "").replace("-", " to ")}` : undefined
          }
          lead={
            rollout
              ? "From which patches the query's content could have come: attention multiplied through the blocks. Point at the picture."
              : undefined
          }
        />
      </main>
      <footer>
        <span>qkv {__VERSION__}</span>
      </footer>
    </>
  );
}

setClient(
  new Client({ kind: "recording", call: () => Promise.reject(new Error("This page holds one view and no engine.")) }),
);
const page = readPage(document);
set(firstState(page));
render(<Attend page={page} />, document.getElementById("app")!);
