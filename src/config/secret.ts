// A secret in the configuration: plain data, so that it can be sent to another thread. It is read at each use, because its file may
// have changed. Every value is registered with `redact`. Errors name the option and the file, never the value.
import { type BigIntStats, readFileSync, statSync } from 'node:fs'
import { GraphmillError } from '../errors.ts'
import { keepSecret } from '../redact.ts'

/** The value of an option: the secret itself, or the file that holds it. */
export type Secret = {
  /** Where it was given, for errors: `--store-token`, `GRAPHMILL_STORE_TOKEN_FILE`. */
  readonly place: string
  /** Whether it may hold characters that no HTTP header takes, such as letters beyond ASCII. */
  readonly anyText: boolean
} & ({ readonly text: string } | { readonly file: string })

interface SeenFile {
  readonly identity: string
  readonly text: string
}

/** The last usable value of every file, by path. */
const seen = new Map<string, SeenFile>()

/**
 * The current secret. A file that has changed is read again; while it cannot be read, or holds nothing usable, the previous value
 * is used. Throws `configuration_invalid` when there never was one.
 *
 * @example headers.authorization = `Bearer ${secretText(token)}`
 */
export function secretText(secret: string | Secret): string {
  if (typeof secret === 'string') {
    keepSecret(secret, 'program')
    return secret
  }
  try {
    return checkSecret(secret)
  } catch (thrown) {
    const before = 'file' in secret ? seen.get(secret.file) : undefined
    if (before) return before.text
    throw thrown
  }
}

/** The current secret. Throws `configuration_invalid` when the file cannot be read, or the text cannot be a secret. */
export function checkSecret(secret: Secret): string {
  if ('text' in secret) return checkText(secret, secret.text)
  const stats = statOf(secret.place, secret.file)
  const identity = [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join()
  const known = seen.get(secret.file)
  if (known?.identity === identity) return known.text
  const text = checkText(secret, readFile(secret.place, secret.file).replace(/[\r\n]+$/, ''))
  // A young file may be written again within the resolution of its times and look the same, so it is read again next time.
  const isSettled = Date.now() - Number(stats.mtimeMs > stats.ctimeMs ? stats.mtimeMs : stats.ctimeMs) > 3000
  seen.set(secret.file, { identity: isSettled ? identity : '', text })
  return text
}

function statOf(place: string, file: string): BigIntStats {
  try {
    return statSync(file, { bigint: true })
  } catch (cause) {
    throw unreadable(place, file, cause)
  }
}

function readFile(place: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw unreadable(place, file, cause)
  }
}

function unreadable(place: string, file: string, cause: unknown): GraphmillError {
  const { code } = cause as NodeJS.ErrnoException
  return invalid(`${place}: the file ${file} cannot be read (${code}).`, cause)
}

const inHeaders = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/
const anywhere = /^[^\p{Cc}\u2028\u2029]+$/u

function checkText(secret: Secret, text: string): string {
  const where = 'file' in secret ? `${secret.place}: the file ${secret.file}` : secret.place
  if (text === '') throw invalid(`${where} holds nothing.`)
  if (secret.anyText ? anywhere.test(text) : inHeaders.test(text)) {
    keepSecret(text, secret.place)
    return text
  }
  const what = /[\r\n\u2028\u2029]/.test(text)
    ? 'a line break'
    : /\p{Cc}/u.test(text)
      ? 'a control character'
      : /^\s|\s$/.test(text)
        ? 'a blank at its beginning or end'
        : 'a character that no HTTP header takes'
  throw invalid(`${where} holds ${what}: give the secret alone.`)
}

const invalid = (message: string, cause?: unknown) =>
  new GraphmillError('configuration_invalid', message, { cause })
