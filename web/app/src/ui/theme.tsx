// Light, dark, or as the system: the switch, and what follows from it.
import { useEffect } from "preact/hooks";
import { set, type State } from "../state";

const kThemes = ["auto", "light", "dark"] as const;

export function ThemeButton({ theme }: { theme: State["theme"] }) {
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }, [theme]);
  return (
    <button
      type="button"
      aria-label={`Colours of the page: ${theme}. Switch.`}
      title="Light, dark, or as the system"
      onClick={() => set({ theme: kThemes[(kThemes.indexOf(theme) + 1) % 3] })}
    >
      <span aria-hidden="true">{{ auto: "◐", light: "☀", dark: "☾" }[theme]}</span> <span class="word">{theme}</span>
    </button>
  );
}
