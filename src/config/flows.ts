// The flows file: which workspaces and flows there are, and what each sets for itself. It is read whole or not at all.
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { GraphmillError } from '../errors.ts'
import { type Config, overrideConfig, suggest } from './config.ts'
import type { OptionName } from './options.ts'

/** What a flow may set; everything else is the process's. */
export const flowOptions = [
  'workspace',
  'flow',
  'collection',
  'llm',
  'model',
  'temperature',
  'prompts',
  'output-mode',
  'extractors',
  'schemas',
  'ontologies',
  'ontology-budget',
  'provenance',
  'chunk-size',
  'chunk-overlap',
] as const satisfies readonly OptionName[]

const namePattern = /^[a-z0-9_-]+$/

/**
 * The configuration of each flow of a file: `flows: [{ workspace, flow, ...options }]`, on top of the process's own.
 * Throws `configuration_invalid`, naming file and flow, for unknown keys, and for two flows that would share topics.
 */
export function readFlows(path: string, base: Config): Config[] {
  let content: unknown
  try {
    content = parse(readFileSync(path, 'utf8'), { maxAliasCount: 100 })
  } catch (cause) {
    throw invalid(`${path}: ${(cause as Error).message}`, cause)
  }
  const flows = isObject(content) ? content['flows'] : undefined
  if (!isObject(content) || !Array.isArray(flows)) throw invalid(`${path}: it must hold a list \`flows\`.`)
  for (const key of Object.keys(content))
    if (key !== 'flows') throw invalid(`${path}: there is no key ${key}.${suggest(key, ['flows'])}`)
  if (flows.length === 0) throw invalid(`${path}: it holds no flow.`)
  const configs = flows.map((flow: unknown, at) => readFlow(flow, `${path}: flow ${at + 1}`, base))
  const seen = new Set<string>()
  for (const { options } of configs) {
    const name = `${options.workspace}/${options.flow}`
    if (seen.has(name)) throw invalid(`${path}: two flows are called ${name}, and would share their topics.`)
    seen.add(name)
  }
  return configs
}

function readFlow(flow: unknown, place: string, base: Config): Config {
  if (!isObject(flow)) throw invalid(`${place}: it must be an object with workspace and flow.`)
  for (const key of Object.keys(flow))
    if (!(flowOptions as readonly string[]).includes(key))
      throw invalid(`${place}: a flow has no key ${key}.${suggest(key, flowOptions)}`)
  const config = overrideConfig(base, flow, place)
  for (const name of ['workspace', 'flow'] as const)
    if (!namePattern.test(config.options[name]))
      throw invalid(`${place}: ${name} may hold a-z, 0-9, _ and - only.`)
  return config
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const invalid = (message: string, cause?: unknown) =>
  new GraphmillError('configuration_invalid', message, { cause })
