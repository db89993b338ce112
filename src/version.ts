// The version of this build from package.json, in the source tree and in dist.
import { existsSync, readFileSync } from 'node:fs'

const places = ['../package.json', '../../package.json'].map((path) => new URL(path, import.meta.url))
const file = places.find((place) => existsSync(place))!

/** Such as `0.1.0`. */
export const { version } = JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }
