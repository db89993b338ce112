// A line of the log for people: `05:12:33 warn  waiting for the model: no answer [llm_unavailable] attempt=3`. Programs get the JSON.
import { isObject } from '../is-object.ts'

const levels: Readonly<Record<number, string>> = {
  10: 'trace',
  20: 'debug',
  30: 'info',
  40: 'warn',
  50: 'error',
  60: 'fatal',
}

/** From one line of JSON, as pino writes it. What is no such line stays as it is. Control characters cannot reach the terminal. */
export function readableLine(line: string): string {
  let entry: unknown
  try {
    entry = JSON.parse(line)
  } catch {
    return line
  }
  if (!isObject(entry)) return line
  const { level, time, msg = '', err, ...fields } = entry as Readonly<Record<string, unknown>>
  const at = typeof time === 'string' ? `${time.slice(11, 19)} ` : ''
  const name = (levels[Number(level)] ?? String(level)).padEnd(5)
  const { code, message, remedy, stack, type: _, ...details } = isObject(err) ? { ...err } : {}
  const why =
    message === undefined ? '' : `: ${String(message)}${code === undefined ? '' : ` [${String(code)}]`}`
  const advice = remedy === undefined || remedy === '' ? '' : ` ${String(remedy)}`
  const rest = Object.entries({ ...fields, ...details }).map(([key, value]) => ` ${key}=${textOf(value)}`)
  const text = `${at}${name} ${String(msg)}${why}${advice}${rest.join('')}`
  return `${plain(text)}${typeof stack === 'string' ? `\n${stack.split('\n').map(plain).join('\n')}` : ''}\n`
}

function textOf(value: unknown): string {
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value.join(',') || '-'
  if (typeof value === 'string' && /^[^\s"=]+$/.test(value)) return value
  return JSON.stringify(value)
}

const plain = (text: string) => text.replace(/\p{Cc}+/gu, ' ')
