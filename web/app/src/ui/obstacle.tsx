// Why a model cannot have an edit, in the engine's words.
import type { Bench } from "../bench";
import type { Edit } from "../state";
import { useAnswer } from "../transport/client";

/** Nothing if the model can have it. `edit` is an example of the kind. */
export function Obstacle({ bench, edit }: { bench: Bench; edit: Edit }) {
  const { model, seen } = bench;
  const possible = model.exact.includes(edit.kind);
  // A pass with the edit is refused, and the refusal says why.
  const { error } = useAnswer(
    "pass",
    possible || !seen ? null : { model: model.id, image: seen.id, blocks: [], edits: [edit] },
  );
  if (possible) return null;
  const why = error?.message.replace(/^edit: /, "");
  return (
    <p class="problem">
      {why
        ? `Not possible here: ${why}.`
        : `${model.title} cannot be edited so.${seen ? "" : " Open a picture to see why."}`}
    </p>
  );
}
