// Controls: native elements with labels, so that keyboard and screen reader work as everywhere.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { askAgain, isKept, theClient, type Asked } from "../transport/client";
import { EngineError } from "../transport/transport";

interface SliderProps {
  label: ComponentChildren;
  value: number;
  min: number;
  max: number;
  step: number;
  text?: string; // the value as read
  ends?: [string, string];
  onInput(value: number): void;
  list?: number[]; // marked values
  disabled?: boolean;
}

export function Slider({ label, value, min, max, step, text, ends, onInput, list, disabled }: SliderProps) {
  const id = useId();
  return (
    <div class="slider">
      <label for={id}>{label}</label>
      <output for={id}>{text ?? value}</output>
      <input
        id={id}
        type="range"
        min={min}
        max={max}
        step={step}
        value={value}
        disabled={disabled}
        aria-valuetext={text}
        list={list && `${id}-marks`}
        onInput={(event) => onInput(event.currentTarget.valueAsNumber)}
      />
      {list && (
        <datalist id={`${id}-marks`}>
          {list.map((mark) => (
            <option key={mark} value={mark} />
          ))}
        </datalist>
      )}
      {ends && (
        <div class="ends" aria-hidden="true">
          <span>{ends[0]}</span>
          <span>{ends[1]}</span>
        </div>
      )}
    </div>
  );
}

interface ChoiceProps<T extends string | number> {
  label: string;
  value: T;
  options: [T, ComponentChildren][];
  onChange(value: T): void;
  hideLabel?: boolean;
  disabled?: boolean;
}

/** One of a few, as radio buttons beside each other. */
export function Choice<T extends string | number>({
  label,
  value,
  options,
  onChange,
  hideLabel,
  disabled,
}: ChoiceProps<T>) {
  const name = useId();
  return (
    <fieldset class="choice" disabled={disabled}>
      <legend class={hideLabel ? "hidden" : ""}>{label}</legend>
      <div class="segments">
        {options.map(([option, text]) => (
          <label key={option} class={option === value ? "chosen" : ""}>
            <input type="radio" name={name} checked={option === value} onChange={() => onChange(option)} />
            <span>{text}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

export function Toggle({
  label,
  value,
  onChange,
  disabled,
}: {
  label: ComponentChildren;
  value: boolean;
  onChange(value: boolean): void;
  disabled?: boolean;
}) {
  return (
    <label class="toggle">
      <input
        type="checkbox"
        checked={value}
        disabled={disabled}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>{label}</span>
    </label>
  );
}

interface SelectProps {
  label: string;
  value: string;
  options: [value: string, text: string, disabled?: boolean][];
  onChange(value: string): void;
  hideLabel?: boolean;
  disabled?: boolean;
}

export function Select({ label, value, options, onChange, hideLabel, disabled }: SelectProps) {
  return (
    <label class="select">
      <span class={hideLabel ? "hidden" : ""}>{label}</span>
      <select value={value} disabled={disabled} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([option, text, disabled]) => (
          <option key={option} value={option} selected={option === value} disabled={disabled}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A matrix with an index: W("Q"). */
const W = (index: string) => (
  <span class="math">
    <i>W</i>
    <sub>{index}</sub>
  </span>
);
export const WQ = W("Q"),
  WK = W("K"),
  WV = W("V"),
  WO = W("O");

/** In a kept page, why controls do nothing. */
export function KeptOnly() {
  return isKept() ? (
    <p class="note" role="status" data-not-kept>
      This page holds no engine: open the explorer for more.
    </p>
  ) : null;
}

/** What went wrong, in the engine's words; that the server is away is said once, above the view. */
/** Says that the first answer is on its way; later ones replace it when they come. */
export function Waiting({ for: asked, children }: { for: Asked; children: ComponentChildren }) {
  return asked.busy && !asked.answer ? (
    <p class="note waits" role="status">
      {children}
    </p>
  ) : null;
}

export function Problem({ error, alone, of }: { error: Error | null; alone?: boolean; of?: string }) {
  const engine = error instanceof EngineError ? error : null;
  if (!error || (engine?.type === "unreachable" && !alone && theClient().transport.kind === "server")) return null;
  if (engine?.type === "not_recorded") return <KeptOnly />;
  return (
    <p class="problem" role="alert">
      {of && `${of}: `}
      {error.message}{" "}
      {engine?.passes && !alone && (
        <button type="button" onClick={askAgain}>
          Try again
        </button>
      )}
    </p>
  );
}

/** Of a large image a patch has thousandths of a percent. */
export function percent(x: number): string {
  const share = 100 * Math.abs(x);
  const digits = share >= 9.95 ? 1 : share >= 0.00995 || share < 1e-6 ? 2 : 1 - Math.floor(Math.log10(share));
  return `${(100 * x).toFixed(digits)} %`;
}
// Rounded first, so that nothing is −0.00.
const minus = (x: number, digits: number) => x < 0 && Number(x.toFixed(digits)) !== 0;
export const signed = (x: number, digits = 2) => `${minus(x, digits) ? "−" : "+"}${Math.abs(x).toFixed(digits)}`;
export const plain = (x: number, digits = 2) => (minus(x, digits) ? "−" : "") + Math.abs(x).toFixed(digits);
export const short = (x: number) =>
  x >= 1e12
    ? `${(x / 1e12).toPrecision(3)} T`
    : x >= 1e9
      ? `${(x / 1e9).toPrecision(3)} G`
      : x >= 1e6
        ? `${(x / 1e6).toPrecision(3)} M`
        : x >= 1e3
          ? `${(x / 1e3).toPrecision(3)} k`
          : x.toPrecision(3);
