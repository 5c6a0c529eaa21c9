// Pictures of values over time.

import { useEffect, useRef } from 'preact/hooks';

export interface ChartProps {
  label: string;
  /** Milliseconds since 1970. */
  times: readonly number[];
  series: readonly { readonly name: string; readonly values: readonly (number | null)[] }[];
  /** Writes a value of the vertical axis. */
  format?: (value: number) => string;
  height?: number;
}

/** Lines over time. Screen readers read the last values. */
export function Chart({ label, times, series, format = String, height = 140 }: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const place = host.current;
    if (!place) return;
    let isGone = false;
    let remove = () => {};
    import('./plot.ts').then(({ draw }) => {
      if (!isGone) remove = draw(place, { label, times, series, format, height });
    });
    return () => {
      isGone = true;
      remove();
    };
  }, [times, series, height, label]);
  const last = series.map(({ name, values }) => `${name}: ${format(values.at(-1) ?? 0)}`).join(', ');
  return (
    <figure class="chart">
      <figcaption>
        {label} <span class="soft">{last}</span>
      </figcaption>
      <div ref={host} aria-hidden="true" />
    </figure>
  );
}
