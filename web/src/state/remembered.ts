// Small values that the browser keeps, such as choices of view.

/** A value under a name. A browser that keeps nothing returns `initial`. */
export function remembered<T>(name: string, initial: T): { get: () => T; set: (value: T) => void } {
  const key = `diwan.${name}`;
  return {
    get() {
      try {
        const text = localStorage.getItem(key);
        return text === null ? initial : (JSON.parse(text) as T);
      } catch {
        return initial;
      }
    },
    set(value) {
      try {
        localStorage.setItem(key, JSON.stringify(value));
      } catch {
        // Full or forbidden: the value holds until the page is closed.
      }
    },
  };
}
