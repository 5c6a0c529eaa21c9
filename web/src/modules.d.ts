// What the build understands beyond TypeScript.

declare module '*.css';
