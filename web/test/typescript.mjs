// Lets Node 20 import the TypeScript sources: a module hook translates each file with esbuild.
import { register } from 'node:module'

register('./typescript-hooks.mjs', import.meta.url)
