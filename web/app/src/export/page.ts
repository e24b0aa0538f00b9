// The shown view as one offline HTML file: this very page with the view's answers inside, so that hovering still works.
import { theClient } from "../transport/client";
import type { Recording } from "../transport/recording";

const escape = (text: string) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

/** Throws if this page is not the built one, whose program is inside it. */
export function viewAsPage(title: string, hash: string): string {
  const program = document.getElementById("program")?.textContent,
    style = document.getElementById("style")?.textContent;
  if (!program || !style) throw new Error("Only the built page can be kept as HTML: npm run build");
  const recording: Recording = { hash, title, calls: theClient().record() };
  const metas = [...document.head.querySelectorAll("meta:not([name=qkv-engine])")]
    .map((meta) => meta.outerHTML)
    .join("\n");
  const icon = document.head.querySelector("link[rel=icon]")?.outerHTML ?? "";
  return `<!doctype html>
<html lang="en">
<head>
${metas}
<title>${escape(title)} – qkv explorer</title>
${icon}
<style id="style">${style}</style>
</head>
<body>
<div id="app"></div>
<script type="application/json" id="recording">${JSON.stringify(recording).replaceAll("<", "\\u003c")}</script>
<script type="module" id="program">${program}</script>
</body>
</html>
`;
}
