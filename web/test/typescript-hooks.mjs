// The hooks that typescript.mjs registers; Node runs them on their own thread.
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { transform } from 'esbuild'

/** Translates TypeScript to JavaScript modules. */
export async function load(url, context, next) {
  if (!/\.tsx?$/.test(url)) return next(url, context)
  const source = await readFile(fileURLToPath(url), 'utf8')
  const { code } = await transform(source, {
    loader: url.endsWith('x') ? 'tsx' : 'ts',
    format: 'esm',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    sourcemap: 'inline',
  })
  return { format: 'module', source: code, shortCircuit: true }
}
