// TrustGraph's configuration of its prompts: a flat map of `system`, `template-index` and `template.<id>`, whose values are JSON
// text or the decoded values. With an index only its ids are read; without one, as of TrustGraph 2.8, each template is a prompt.

import { isObject } from '../../is-object.ts'
import { jsonValue } from '../../json-value.ts'
import { describeValue } from '../template/value.ts'
import { type PromptDefinition, readPrompt, type SystemDefinition } from './definition.ts'
import { suggest } from './problem.ts'
import type { KeyPath, Report } from './source.ts'

const prefix = 'template.'
const dialect = 'trustgraph'

/** The map, at the root or under the configuration type `prompt`; undefined when the value has another form. */
export function findConfiguration(
  value: unknown,
): { readonly value: object; readonly at: KeyPath } | undefined {
  if (!isObject(value)) return undefined
  if (isConfiguration(value)) return { value, at: [] }
  const inner = value['prompt']
  return isObject(inner) && isConfiguration(inner) ? { value: inner, at: ['prompt'] } : undefined
}

function isConfiguration(value: Readonly<Record<string, unknown>>): boolean {
  const keys = Object.keys(value)
  if (keys.includes('template-index') || keys.some((key) => key.startsWith(prefix))) return true
  return keys.includes('system') && typeof value['prompt'] !== 'string'
}

/** What the configuration holds; what cannot be read is reported. */
export function readConfiguration(
  value: object,
  at: KeyPath,
  report: Report,
): { system: SystemDefinition | undefined; prompts: PromptDefinition[] } {
  const map = value as Readonly<Record<string, unknown>>
  const prompts = readIndex(map, at, report).map((id) => readIndexed(id, map, { at, report }))
  return {
    system: readSystemText(map['system'], at, report),
    prompts: prompts.filter((prompt) => prompt !== undefined),
  }
}

/** JSON text that holds a string, or the text itself. */
function readSystemText(value: unknown, at: KeyPath, report: Report): SystemDefinition | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'string') {
    report([...at, 'system'], `must be text, not ${describeValue(value)}`)
    return undefined
  }
  const decoded = jsonValue(value)
  return { prompt: typeof decoded === 'string' ? decoded : value, dialect, terms: {} }
}

function readIndex(map: Readonly<Record<string, unknown>>, at: KeyPath, report: Report): readonly string[] {
  const value = map['template-index']
  if (value === undefined || value === null) return idsOf(map)
  const index = typeof value === 'string' ? jsonValue(value) : value
  if (Array.isArray(index) && index.every((id) => typeof id === 'string')) return [...new Set<string>(index)]
  report([...at, 'template-index'], 'must be a list of ids, or one as JSON text')
  return []
}

function readIndexed(
  id: string,
  map: Readonly<Record<string, unknown>>,
  { at, report }: { at: KeyPath; report: Report },
): PromptDefinition | undefined {
  const key = prefix + id
  const value = Object.hasOwn(map, key) ? map[key] : undefined
  if (value === undefined) {
    report([...at, 'template-index'], `"${key}" is missing${suggest(id, idsOf(map))}`)
    return undefined
  }
  const options = { at: [...at, key], report, lenient: true, dialect } as const
  if (typeof value !== 'string') return readPrompt(id, value, options)
  try {
    return readPrompt(id, JSON.parse(value), options)
  } catch (error) {
    report([...at, key], `not JSON: ${(error as Error).message}`)
    return undefined
  }
}

/** The ids of all templates. */
function idsOf(map: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(map).flatMap((key) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : []))
}
