// Draws a chart. Only `chart.tsx` imports this file, so that pages without charts do not load the library.

import uPlot from 'uplot';
import type { ChartProps } from './chart.tsx';

/** Draws the chart into `host`, as wide as it is. Returns the function that removes it. */
export function draw(host: HTMLElement, chart: Required<ChartProps>): () => void {
  const colour = (name: string) => getComputedStyle(host).getPropertyValue(name).trim();
  const strokes = ['--chart-1', '--chart-2', '--chart-3', '--chart-4'].map(colour);
  const axis = { stroke: colour('--text-soft'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui' };
  const plot = new uPlot(
    {
      width: host.clientWidth,
      height: chart.height,
      legend: { show: false },
      cursor: { y: false },
      padding: [8, 8, 0, 0],
      axes: [axis, { ...axis, size: 64, values: (_, values) => values.map((value) => chart.format(value)) }],
      scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      series: [{}, ...chart.series.map(({ name }, index) => ({ label: name, stroke: strokes[index % strokes.length], width: 1.5, points: { show: false } }))],
    },
    [chart.times.map((time) => time / 1000), ...chart.series.map(({ values }) => [...values])],
    host,
  );
  const observer = new ResizeObserver(() => plot.setSize({ width: host.clientWidth, height: chart.height }));
  observer.observe(host);
  return () => {
    observer.disconnect();
    plot.destroy();
  };
}
