// Numbers as a table whose cells are coloured; a cell can be a button.
import { useState } from "preact/hooks";
import { onGround, sequential } from "../colour/maps";

interface Props {
  caption?: string; // shown above the table
  label?: string; // what the table holds, if no caption says it
  rows: string[];
  columns: string[];
  values: (number | null)[][]; // null: not known yet
  low: number;
  high: number;
  map?: Uint8Array;
  text(value: number): string;
  unit?: string;
  pressed?(row: number, column: number): boolean;
  note?(row: number, column: number): string; // beside the number
  onPick?(row: number, column: number): void;
  crosses?: boolean; // a pressed cell is pale and says that it is out
  action?: string; // what a click does, for screen readers
}

export function HeatTable({
  caption,
  label = "Table of heads",
  rows,
  columns,
  values,
  low,
  high,
  map = sequential,
  text,
  unit = "",
  pressed,
  note,
  onPick,
  crosses,
  action,
}: Props) {
  const share = (value: number) => (high > low ? (value - low) / (high - low) : 0);
  // Of the buttons one is a stop of Tab, and arrow keys move between them.
  const [stop, setStop] = useState<[number, number]>([0, 0]);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const r = Math.min(rows.length - 1, Math.max(0, stop[0] + step[0])),
      c = Math.min(columns.length - 1, Math.max(0, stop[1] + step[1]));
    setStop([r, c]);
    (event.currentTarget as HTMLElement)
      .querySelectorAll("tbody tr")
      [r]?.querySelectorAll<HTMLElement>("td button")
      [c]?.focus();
  };
  const stopRow = Math.min(stop[0], rows.length - 1),
    stopColumn = Math.min(stop[1], columns.length - 1);
  return (
    <div
      class="wide"
      tabIndex={onPick ? undefined : 0}
      role="region"
      aria-label={onPick ? `${caption ?? label}. Arrow keys move between the numbers.` : (caption ?? label)}
      onKeyDown={onPick ? onKeyDown : undefined}
    >
      <table class={`heat ${crosses ? "" : "choose"}`}>
        {caption && <caption>{caption}</caption>}
        <thead>
          <tr>
            <td />
            {columns.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((name, r) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {columns.map((column, c) => {
                const value = values[r]?.[c] ?? null,
                  on = pressed?.(r, c) ?? false;
                const { colour, ink } = onGround(map, share(value ?? low));
                const style =
                  value === null
                    ? {}
                    : crosses && on
                      ? { backgroundColor: `color-mix(in srgb, ${colour} 35%, var(--ground))` }
                      : { backgroundColor: colour, color: ink };
                const inside =
                  value === null ? (
                    "…"
                  ) : (
                    <>
                      {text(value)}
                      {crosses && on && (
                        <>
                          {" "}
                          <small>out</small>
                        </>
                      )}
                      {!(crosses && on) && note?.(r, c) && (
                        <>
                          {" "}
                          <small>{note(r, c)}</small>
                        </>
                      )}
                    </>
                  );
                return (
                  <td key={column} class={on ? "on" : ""} style={style}>
                    {onPick ? (
                      <button
                        type="button"
                        tabIndex={r === stopRow && c === stopColumn ? 0 : -1}
                        onFocus={() => setStop([r, c])}
                        aria-pressed={on}
                        aria-label={`${name}, ${column}: ${value === null ? "not known yet" : `${text(value)}${crosses && on ? " out" : note?.(r, c) ? ` ${note(r, c)}` : ""}${unit && ` ${unit}`}`}. ${action ?? ""}`}
                        onClick={() => onPick(r, c)}
                      >
                        {inside}
                      </button>
                    ) : (
                      inside
                    )}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
