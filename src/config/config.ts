// One typed configuration, read once: flags come first, then environment, file and defaults. Nothing else reads the environment.
import { existsSync } from 'node:fs'
import { closest, distance } from 'fastest-levenshtein'
import { GraphmillError } from '../errors.ts'
import type { InputFile } from '../input-file.ts'
import { keepAddress } from './address.ts'
import { cacheFolder } from './cache-folder.ts'
import { serverVariables } from './models.ts'
import {
  fileOption,
  type OptionEntry,
  type OptionName,
  type Options,
  optionTable,
  type SecretName,
  secretNames,
} from './options.ts'
import { checkSecret, type Secret } from './secret.ts'
import { readYaml } from './yaml.ts'

/** The source of a value. */
export type Origin = 'flag' | 'environment' | 'file' | 'default'

export interface Config {
  readonly options: Options
  readonly origins: Readonly<Record<OptionName, Origin>>
  /** The configuration file that was read, if there was one. */
  readonly file: string | undefined
  /** The cache folder: `--cache-dir`, or graphmill's folder among the system's caches. */
  readonly cacheDir: string
  /** The servers' own variables. */
  readonly servers: Servers
  /** For a flow that follows TrustGraph's configuration. */
  readonly supplied?: SuppliedFiles | undefined
}

/** Files that come from elsewhere than the disk. */
export interface SuppliedFiles {
  /** In place of all built-in prompts. */
  readonly prompts: InputFile
  /** Besides those that the options name. */
  readonly schemas?: InputFile | undefined
  readonly ontologies?: InputFile | undefined
}

type Servers = {
  readonly [N in keyof typeof serverVariables]:
    | ((typeof serverVariables)[N]['holds'] extends 'secret' ? Secret : string)
    | undefined
}

export interface ConfigSources {
  /** By option name. Values are texts, `true` for flags, lists for repeated options. */
  readonly flags: Readonly<Record<string, unknown>>
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Options of single commands that the file may set, too. Default: none. */
  readonly own?: readonly string[]
}

export interface ConfigFile {
  /** Undefined when there is none. */
  readonly path: string | undefined
  readonly values: Readonly<Record<string, unknown>>
}

/** The file that is read when no other is named. */
const defaultFile = 'graphmill.yaml'

/** Throws `configuration_invalid`, naming the option and where its value came from. */
export function readConfig(sources: ConfigSources): Config {
  const { flags, environment } = sources
  const fromEnvironment = (name: string) => environment[variableOf(name)] || undefined
  const { path, values: file } = readConfigFile(sources)
  const options: Record<string, unknown> = {}
  const origins: Record<string, Origin> = {}
  for (const [name, entry] of Object.entries<OptionEntry>(optionTable)) {
    const candidates: [Origin, string, unknown][] = [
      ['flag', `--${name}`, flags[name]],
      ['environment', variableOf(name), fromEnvironment(name)],
      ['file', `${path}: ${name}`, file[name] ?? undefined],
    ]
    const found = candidates.find(([, , value]) => value !== undefined)
    options[name] = found ? readValue(entry, found[1], found[2]) : entry.default
    origins[name] = found ? found[0] : 'default'
    if (entry.type === 'flag') options[name] ??= false
    if (entry.address && found) keepAddress(String(options[name]), found[1])
  }
  const placeOf = (name: OptionName, origin: Origin) =>
    origin === 'flag' ? `--${name}` : origin === 'environment' ? variableOf(name) : `${path}: ${name}`
  for (const name of secretNames) options[name] = readSecret(name, { options, origins, placeOf })
  return {
    options: options as Options,
    origins: origins as Record<OptionName, Origin>,
    file: path,
    cacheDir: (options['cache-dir'] as string | undefined) ?? cacheFolder(environment),
    servers: readServers(environment),
  }
}

const originOrder: readonly Origin[] = ['flag', 'environment', 'file', 'default']

interface FoundOptions {
  readonly options: Readonly<Record<string, unknown>>
  readonly origins: Record<string, Origin>
  /** The source of an option, for error messages. */
  readonly placeOf: (name: OptionName, origin: Origin) => string
}

/** The secret itself or the file that holds it, whichever has precedence. The origin of the secret is set accordingly. */
function readSecret(name: SecretName, { options, origins, placeOf }: FoundOptions): Secret | undefined {
  const named = fileOption(name)
  const [text, file] = [options[name], options[named]] as (string | undefined)[]
  const [ofText, ofFile] = [origins[name]!, origins[named]!]
  const anyText = (optionTable[name] as OptionEntry).anyText === true
  if (text !== undefined && file !== undefined && ofText === ofFile)
    throw invalid(`Give ${placeOf(name, ofText)} or ${placeOf(named, ofFile)}, not both.`)
  if (file !== undefined && originOrder.indexOf(ofFile) < originOrder.indexOf(ofText)) {
    origins[name] = ofFile
    return checked({ place: placeOf(named, ofFile), anyText, file })
  }
  return text === undefined ? undefined : checked({ place: placeOf(name, ofText), anyText, text })
}

function readServers(environment: ConfigSources['environment']): Servers {
  const values = Object.entries(serverVariables).map(([name, { variable, holds }]) => {
    if (holds === 'secret') return [name, secretOfServer(variable, environment)]
    if (holds === 'address') keepAddress(environment[variable] ?? '', variable)
    return [name, environment[variable] || undefined]
  })
  return Object.fromEntries(values) as Servers
}

/** A secret without an option: from its own variable, or from the one that names its file. */
function secretOfServer(variable: string, environment: ConfigSources['environment']): Secret | undefined {
  const [text, file] = [environment[variable], environment[`${variable}_FILE`]]
  if (text && file) throw invalid(`Give ${variable} or ${variable}_FILE, not both.`)
  if (file) return checked({ place: `${variable}_FILE`, anyText: false, file })
  return text ? checked({ place: variable, anyText: false, text }) : undefined
}

function checked(secret: Secret): Secret {
  checkSecret(secret)
  return secret
}

/** The secrets of a configuration that are files. */
export function secretFiles({ options, servers }: Config): (Secret & { readonly file: string })[] {
  const secrets = [...secretNames.map((name) => options[name]), ...Object.values(servers)]
  return secrets.filter((secret) => typeof secret === 'object' && 'file' in secret)
}

/** The configuration with `values` put first. `place` is their source, for errors. Throws `configuration_invalid`. */
export function overrideConfig(
  config: Config,
  values: Readonly<Record<string, unknown>>,
  place: string,
): Config {
  const options: Record<string, unknown> = { ...config.options }
  const origins: Record<string, Origin> = { ...config.origins }
  for (const [name, value] of Object.entries(values)) {
    if (!Object.hasOwn(optionTable, name)) throw invalid(`${place}: there is no option ${name}.`)
    options[name] = readValue(optionTable[name as OptionName], `${place}: ${name}`, value)
    origins[name] = 'file'
  }
  return { ...config, options: options as Options, origins: origins as Config['origins'] }
}

/** The environment variable of an option. */
export const variableOf = (name: string) => `GRAPHMILL_${name.toUpperCase().replaceAll('-', '_')}`

/** A message for each variable that looks like an option but is not, with the option that may be meant. */
export function strangeVariables(
  environment: ConfigSources['environment'],
  otherOptions: readonly string[],
): string[] {
  const known = [...Object.keys(optionTable), ...otherOptions, 'node-tried'].map(variableOf)
  return Object.keys(environment)
    .filter((name) => name.startsWith('GRAPHMILL_') && !known.includes(name))
    .map((name) => `${name} is no option.${suggest(name, known)}`)
}

/** The configuration file that the sources name, or the default one. Throws `configuration_invalid` for an unknown option. */
export function readConfigFile({ flags, environment, own = [] }: ConfigSources): ConfigFile {
  const named = (flags['config'] as string | undefined) ?? (environment[variableOf('config')] || undefined)
  const path = named ?? (existsSync(defaultFile) ? defaultFile : undefined)
  return { path, values: path === undefined ? {} : readFile(path, own) }
}

function readFile(path: string, own: readonly string[]): Readonly<Record<string, unknown>> {
  const known = [...Object.keys(optionTable), ...own]
  const content = readYaml(path) ?? {}
  if (typeof content !== 'object' || Array.isArray(content))
    throw invalid(`${path}: it must hold options by name.`)
  for (const key of Object.keys(content as object)) {
    if (!known.includes(key)) {
      // Without a space after the colon, the value belongs to the key.
      const name = /^[\w-]*/.exec(key)![0]
      throw invalid(`${path}: there is no option ${name}.${suggest(name, known)}`)
    }
    if (key === 'config') throw invalid(`${path}: config cannot be set in the file itself.`)
  }
  return content as Record<string, unknown>
}

/** Checks and converts the value of an option. `place` is its source, for errors. Throws `configuration_invalid`. */
export function readValue(entry: OptionEntry, place: string, value: unknown): unknown {
  const wrong = (what: string, hint = '') =>
    invalid(`${place} ${what}, not ${entry.secret ? 'what was given' : shown(value)}.${hint}`)
  switch (entry.type) {
    case 'count': {
      const count = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
      const { least = 1, most = Number.POSITIVE_INFINITY } = entry
      if (typeof count !== 'number' || !Number.isInteger(count) || count < least || count > most)
        throw wrong(`must be a whole number from ${least} ${entry.most === undefined ? 'on' : `to ${most}`}`)
      return count
    }
    case 'number': {
      const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
      if (typeof number !== 'number' || !Number.isFinite(number) || number < 0)
        throw wrong('must be a number from 0 on')
      return number
    }
    case 'flag': {
      if (value === true || value === 'true' || value === '1') return true
      if (value === false || value === 'false' || value === '0') return false
      throw wrong('must be true or false')
    }
    case 'list': {
      const given: readonly unknown[] = Array.isArray(value) ? value : [value]
      if (!given.every((item) => typeof item === 'string' || typeof item === 'number'))
        throw wrong('must be a text or a list of texts')
      const list = given.flatMap((item) => (entry.repeated ? [String(item)] : String(item).split(',')))
      return list.map((item) => item.trim()).filter((item) => item !== '')
    }
    case 'text': {
      if (typeof value !== 'string' && typeof value !== 'number') throw wrong('must be a text')
      const text = String(value)
      if (entry.choices && !entry.choices.includes(text))
        throw wrong(
          `must be one of ${entry.choices.join(', ')}`,
          entry.hints?.[text] ?? suggest(text, entry.choices),
        )
      return text
    }
    default:
      return entry.type satisfies never
  }
}

/** The value, for error messages. YAML may hold cycles, which JSON cannot show. */
function shown(value: unknown): string {
  return typeof value === 'object' && value !== null
    ? Array.isArray(value)
      ? 'a list'
      : 'an object'
    : JSON.stringify(value)
}

/** ` Did you mean x?`, or an empty text when no known name is similar. */
export function suggest(name: string, known: readonly string[]): string {
  if (known.length === 0) return ''
  const near = closest(name, known as string[])
  return distance(name, near) <= Math.max(2, name.length / 3) ? ` Did you mean ${near}?` : ''
}

const invalid = (message: string, cause?: unknown) =>
  new GraphmillError('configuration_invalid', message, { cause })
