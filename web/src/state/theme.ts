// Light, dark, or as the system.

import { signal } from '@preact/signals';
import { remembered } from './remembered.ts';

const THEMES = ['system', 'light', 'dark'] as const;

export type Theme = (typeof THEMES)[number];

const stored = remembered<Theme>('theme', 'system');

/** The theme that is chosen. */
export const theme = signal<Theme>(stored.get());

function apply(): void {
  if (theme.value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}

/** Chooses the next theme. */
export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
  stored.set(theme.value);
  apply();
}

apply();
