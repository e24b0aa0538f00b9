// Numbers as a table whose cells are coloured; a cell can be a button.
import { css, inkOn, sequential } from "../colour/maps";

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
  crosses?: boolean; // a pressed cell is crossed out
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
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={caption ?? label}>
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
                const style =
                  value === null ? {} : { backgroundColor: css(map, share(value)), color: inkOn(map, share(value)) };
                const inside =
                  value === null ? (
                    "…"
                  ) : (
                    <>
                      {text(value)}
                      {note?.(r, c) && (
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
                        aria-pressed={on}
                        aria-label={`${name}, ${column}: ${value === null ? "not known yet" : `${text(value)}${note?.(r, c) ? ` ${note(r, c)}` : ""}${unit && ` ${unit}`}`}. ${action ?? ""}`}
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
