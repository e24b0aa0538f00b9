// A button that opens a few actions. It closes when the focus or a press goes elsewhere, and after an action has the focus.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  summary: ComponentChildren;
  title?: string;
  items: [text: string, run: () => void][];
}

export function DropDown({ summary, title, items }: Props) {
  const menu = useRef<HTMLDetailsElement>(null);
  const close = () => {
    menu.current!.open = false;
    menu.current!.querySelector("summary")!.focus();
  };
  useEffect(() => {
    const pressed = ({ target }: Event) => {
      if (menu.current?.open && !menu.current.contains(target as Node)) menu.current.open = false;
    };
    document.addEventListener("pointerdown", pressed);
    return () => document.removeEventListener("pointerdown", pressed);
  }, []);
  return (
    <details
      class="menu"
      ref={menu}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !menu.current?.open) return;
        event.preventDefault();
        close();
      }}
      onFocusOut={({ relatedTarget }) => {
        // Some browsers give a pressed button no focus: nothing takes it then.
        if (relatedTarget && !menu.current!.contains(relatedTarget as Node)) menu.current!.open = false;
      }}
    >
      <summary title={title}>{summary}</summary>
      <div>
        {items.map(([text, run]) => (
          <button
            key={text}
            type="button"
            onClick={() => {
              close();
              run();
            }}
          >
            {text}
          </button>
        ))}
      </div>
    </details>
  );
}
