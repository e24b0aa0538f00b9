// A small line plot as SVG, with a mark where the slider stands. Lines differ in colour and dash, which a
// legend above them names.

export interface Line {
  name: string;
  points: [number, number][];
}
interface Props {
  lines: Line[];
  label: string; // of x
  yLabel: string;
  yText(y: number): string;
  low: number;
  high: number;
  at?: number;
  width?: number;
  height?: number;
}

const kDashes = ["", "6 3", "2 3", "9 3 2 3", "1 4"];

export function LinePlot({ lines, label, yLabel, yText, low, high, at, width = 460, height = 200 }: Props) {
  const left = 46,
    right = 16,
    top = 12,
    bottom = 34;
  const xs = lines.flatMap(({ points }) => points.map(([x]) => x));
  const x0 = Math.min(...xs),
    x1 = Math.max(...xs);
  const X = (x: number) => left + ((x - x0) / (x1 - x0 || 1)) * (width - left - right);
  const Y = (y: number) => height - bottom - ((y - low) / (high - low || 1)) * (height - top - bottom);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => low + part * (high - low));
  const xTicks = [...new Set(xs)].filter((_, i, all) => all.length < 10 || i % 2 === 0 || i === all.length - 1);
  const said = lines
    .map(({ name, points }) => `${name}: ${points.map(([x, y]) => `${yText(y)} at ${x}`).join(", ")}`)
    .join(". ");
  return (
    <div class="plot">
      <ul class="names" aria-hidden="true">
        {lines.map(({ name }, i) => (
          <li key={name} class={`line line-${i}`}>
            <svg viewBox="0 0 34 8">
              <polyline points="1,4 33,4" stroke-dasharray={kDashes[i % kDashes.length]} />
            </svg>
            {name}
          </li>
        ))}
      </ul>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${yLabel} along ${label}. ${said}`}>
        {ticks.map((y) => (
          <g key={y}>
            <line class="rule" x1={left} x2={width - right} y1={Y(y)} y2={Y(y)} />
            <text x={left - 6} y={Y(y) + 4} text-anchor="end">
              {yText(y)}
            </text>
          </g>
        ))}
        {xTicks.map((x) => (
          <text key={x} x={X(x)} y={height - bottom + 16} text-anchor="middle">
            {String(x).replace("-", "−")}
          </text>
        ))}
        <text x={(left + width - right) / 2} y={height - 3} text-anchor="middle">
          {label}
        </text>
        {at !== undefined && at >= x0 && at <= x1 && (
          <line class="at" x1={X(at)} x2={X(at)} y1={top} y2={height - bottom} />
        )}
        {lines.map(({ name, points }, i) => (
          <g key={name} class={`line line-${i}`}>
            <polyline
              points={points.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join(" ")}
              stroke-dasharray={kDashes[i % kDashes.length]}
            />
            {points.map(([x, y]) => (
              <circle key={x} cx={X(x)} cy={Y(y)} r={2.5} />
            ))}
          </g>
        ))}
      </svg>
    </div>
  );
}
