// A guided tour of five steps. The page stays usable beneath: each step shows a view and says what to try in it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get, kNoEdits, nothingDrawn, set, useStore, type State } from "./state";
import { wantsStillness } from "./ui/hooks";

const kNarrow = 736; // CSS pixels, as in style.css

interface Stop {
  title: string;
  text: string;
  attempt: ComponentChildren;
  target: string; // what is outlined
  // On a narrow screen, where the target would be far from what is to be done.
  narrow?: { target: string; text: string; attempt: string };
  state: Partial<State>;
}

export const kStops: Stop[] = [
  {
    title: "Draw a digit",
    target: ".pad, .panel .picture",
    text: "This small Vision Transformer cuts a picture into patches and reads it in a few blocks of attention. It answers while you draw.",
    attempt: "Draw a 4. Then close its top and watch it become a 9.",
    state: { view: "attention", pad: true, ...kNoEdits },
  },
  {
    title: "See where a patch looks",
    target: ".head-grid",
    text: "Each small map is one head. It shows from which patches the framed one, the query, reads. Heads have learned different habits.",
    attempt: (
      <>
        Move over the picture<span class="keys">, or use the arrow keys</span>. Choose a head to see it large.
      </>
    ),
    narrow: {
      target: ".panel .picture",
      text: "The colours are the map of one head: from which patches the framed one, the query, reads. Heads have learned different habits.",
      attempt: "Drag the frame over the picture. Then scroll down: each small map there is another head, choose one.",
    },
    state: { view: "attention", pad: false, block: 1, head: 0, query: 25, held: false, ...kNoEdits },
  },
  {
    title: "Take a head away",
    target: ".wide:has(.heat)",
    text: "A map does not say whether a head matters. Taking it away does: each number is the change of the class's logit without that head.",
    attempt: "Click the bluest number, then some of the others, until the prediction breaks.",
    state: { view: "knockout", pad: false, ...kNoEdits },
  },
  {
    title: "Make queries and keys alike",
    target: ".body .slider",
    text: "Why two matrices? Apart, patch A may give B a high score although B gives A a low one. The slider takes that freedom away, without training again.",
    attempt: "Move t from 1 to 0, then to −1, where queries and keys have swapped roles.",
    state: { view: "symmetry", pad: false, ...kNoEdits },
  },
  {
    title: "See where attention comes from",
    target: ".stepper",
    text: "Attention is a weighted mean, like blurring a photo; only the weights are found by asking. Six steps lead from one to the other, the last to a translator.",
    attempt: "Drag the query in each step. Then play freely: every view is in the menu.",
    state: { view: "steps", step: 0, query: -1, held: false, pad: false, ...kNoEdits },
  },
];

export const startTour = () => set({ tour: 0, ...kStops[0].state });

const lookOf = (stop: Stop) => (innerWidth < kNarrow && stop.narrow) || stop;

function close(): void {
  const { picture } = get();
  // A pad that stayed blank is put away.
  set({
    tour: -1,
    ...(nothingDrawn(get()) ? { pad: false, picture: picture?.kind === "drawn" ? null : picture } : {}),
  });
  document.querySelector<HTMLElement>(".tour-start")?.focus();
}

export function Tour() {
  const { tour, view } = useStore();
  const title = useRef<HTMLHeadingElement>(null);
  const stop = kStops[tour];
  useEffect(() => {
    if (!stop) return;
    title.current?.focus({ preventScroll: true });
    // The target may be drawn a moment later.
    let outlined: Element | null = null;
    const find = () => {
      const found = document.querySelector(lookOf(stop).target);
      if (found === outlined) return;
      outlined?.classList.remove("pointed-out");
      found?.classList.add("pointed-out");
      // On a phone the tour has the lower half of the screen, else a strip along its bottom.
      const block = innerWidth < kNarrow ? "start" : "center";
      if (!outlined && found) found.scrollIntoView({ block, behavior: wantsStillness() ? "auto" : "smooth" });
      outlined = found;
    };
    const timer = setInterval(find, 200);
    return () => {
      clearInterval(timer);
      outlined?.classList.remove("pointed-out");
    };
  }, [tour]);
  useEffect(() => {
    document.body.classList.toggle("touring", !!stop);
    if (!stop) return;
    const escape = (event: KeyboardEvent) => {
      // What Escape closes first: a dialog, a menu, a held query.
      if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      close();
    };
    document.addEventListener("keydown", escape);
    return () => document.removeEventListener("keydown", escape);
  }, [!!stop]);
  if (!stop) return null;
  const { text, attempt } = lookOf(stop);
  const go = (to: number) => set({ tour: to, ...(kStops[to]?.state ?? {}) });
  return (
    <section class="tour" role="dialog" aria-labelledby="tour-title" aria-describedby="tour-text" data-not-kept>
      <p class="count">
        Tour, {tour + 1} of {kStops.length}
      </p>
      <h2 id="tour-title" ref={title} tabIndex={-1}>
        {stop.title}
      </h2>
      <div id="tour-text">
        <p>{text}</p>
        <p class="try">
          <b>Try it:</b> {attempt}
        </p>
        {view !== stop.state.view && (
          <p class="note">
            You are looking at another view.{" "}
            <button type="button" class="quiet" onClick={() => set(stop.state)}>
              Back to the tour's
            </button>
          </p>
        )}
      </div>
      <div class="row spread">
        <button type="button" class="quiet" onClick={close}>
          End the tour
        </button>
        <span class="row">
          {tour > 0 && (
            <button type="button" onClick={() => go(tour - 1)}>
              Back
            </button>
          )}
          {tour < kStops.length - 1 ? (
            <button type="button" class="main" onClick={() => go(tour + 1)}>
              Next
            </button>
          ) : (
            <button type="button" class="main" onClick={close}>
              Play freely
            </button>
          )}
        </span>
      </div>
    </section>
  );
}
