// Long lists: only the rows in sight are rendered.

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** Browsers limit the height of an element; longer lists are scaled to this height. */
const MAX_PIXELS = 10_000_000;

/** Rows that are rendered above and below those in sight. */
const MARGIN = 8;

interface RowsProps {
  count: number;
  /** The height of every row, in pixels. */
  rowHeight: number;
  label: string;
  /** A row's contents, or nothing while they are loaded. */
  row: (index: number) => ComponentChildren;
  /** Called with the rows that are in sight, so that they can be loaded. */
  onRange?: (first: number, end: number) => void;
  /** Rows that stay above the others, such as a table's head. */
  head?: ComponentChildren;
  /** The width of the contents if it is more than the list's, in pixels. */
  width?: number;
  /** Whether the list is a table: `head` and `row` return cells with the roles `columnheader` and `cell`. */
  table?: boolean;
}

/** A length for a style. */
export function pixelsOf(length: number): string;
export function pixelsOf(length: number | undefined): string | undefined;
export function pixelsOf(length: number | undefined): string | undefined {
  return length === undefined ? undefined : `${length}px`;
}

/** A list of rows of the same height, which may have millions of them. */
export function Rows({ count, rowHeight, label, row, onRange, head, width, table }: RowsProps) {
  const element = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const pixels = count * rowHeight;
  const scrolled = Math.min(pixels, MAX_PIXELS);
  useLayoutEffect(() => {
    const scroller = element.current!;
    const update = () => setView({ top: scroller.scrollTop, height: scroller.clientHeight });
    const observer = new ResizeObserver(update);
    observer.observe(scroller);
    scroller.addEventListener('scroll', update, { passive: true });
    update();
    return () => {
      observer.disconnect();
      scroller.removeEventListener('scroll', update);
    };
  }, []);
  // In a scaled list, a pixel of scrolling is many pixels of rows.
  const reach = Math.max(1, scrolled - view.height);
  const offset = scrolled === pixels ? view.top : (Math.min(view.top, reach) / reach) * (pixels - view.height);
  const first = Math.max(0, Math.floor(offset / rowHeight) - MARGIN);
  const end = Math.min(count, Math.ceil((offset + view.height) / rowHeight) + MARGIN);
  useEffect(() => onRange?.(first, end), [first, end, count]);
  const indices = Array.from({ length: Math.max(0, end - first) }, (_, step) => first + step);
  return (
    <div class="rows" ref={element} role={table ? 'table' : 'region'} aria-label={label} aria-rowcount={table ? count + 1 : undefined} tabIndex={0}>
      {head && (
        <div class="rows-head" role={table ? 'row' : undefined} style={{ minWidth: pixelsOf(width) }}>
          {head}
        </div>
      )}
      <div class="rows-space" role={table ? 'rowgroup' : undefined} style={{ height: pixelsOf(scrolled), minWidth: pixelsOf(width) }}>
        {indices.map((index) => (
          <div
            key={index}
            class="rows-row"
            role={table ? 'row' : undefined}
            aria-rowindex={table ? index + 2 : undefined}
            style={{ height: pixelsOf(rowHeight), transform: `translateY(${view.top - offset + index * rowHeight}px)` }}
          >
            {row(index)}
          </div>
        ))}
      </div>
    </div>
  );
}
