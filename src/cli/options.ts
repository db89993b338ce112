// From the table of options to the flags of a command, and from a command's flags to the configuration.
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Config, readConfig, readConfigFile, suggest, variableOf } from '../config/config.ts'
import {
  fileOption,
  headingOf,
  isSecret,
  type OptionEntry,
  type OptionName,
  optionTable,
} from '../config/options.ts'
import { GraphmillError } from '../errors.ts'

/** Adds options of the table to a command. Each secret brings the option for its file, and every command gets `--config`. */
export function addOptions(command: Command, names: readonly OptionName[]): Command {
  const withFiles = names.flatMap((name) => (isSecret(name) ? [name, fileOption(name)] : [name]))
  for (const name of new Set([...withFiles, 'config' as const])) {
    const entry: OptionEntry = optionTable[name]
    const flag = entry.type === 'flag' ? `--${name}` : `--${name} <${entry.value ?? 'VALUE'}>`
    const list = Array.isArray(entry.default) ? entry.default.join(',') : entry.default
    const standard = entry.defaults?.[commandName(command)] ?? list
    const choices = entry.choices ? ` (${entry.choices.join(', ')})` : ''
    const shown = standard === undefined || standard === '' ? '' : ` [${standard}]`
    const option = new Option(flag, `${entry.help}${choices}${shown}`)
    if (entry.type === 'list')
      option.argParser((value: string, before: string[] | undefined) => [...(before ?? []), value])
    command.addOption(option.helpGroup(`${headingOf(name)}:`))
  }
  return command
}

/** The full name, such as `prompts import`. */
function commandName(command: Command): string {
  const { parent } = command
  return parent?.parent ? `${commandName(parent)} ${command.name()}` : command.name()
}

const choiceOptions = new WeakMap<Option, readonly string[]>()

/** An option of a single command, with a fixed set of values. */
export function choiceOption(flags: string, help: string, choices: readonly string[]): Option {
  const option = new Option(flags, help).choices(choices).argParser((value) => {
    if (choices.includes(value)) return value
    throw new InvalidArgumentError(`Allowed choices are ${choices.join(', ')}.${suggest(value, choices)}`)
  })
  choiceOptions.set(option, choices)
  return option
}

/** The values of such an option. */
export const choicesOf = (option: Option) => choiceOptions.get(option)

/**
 * Reads options of a single command, such as `tail --from`, from environment variables and the configuration file. Those in the
 * table are read with the configuration. Throws `usage` for an invalid value.
 */
export function readOwnOptions(
  program: Command,
  environment: Readonly<Record<string, string | undefined>>,
): void {
  for (const [command, option] of ownOptions(program)) {
    const variable = variableOf(option.long!.slice(2))
    const text = environment[variable]
    if (text)
      command.setOptionValueWithSource(option.attributeName(), ownValue(option, variable, text), 'env')
  }
  program.hook('preAction', (_, command) => {
    const flags = { config: command.getOptionValue('config') }
    const { path, values } = readConfigFile({ flags, environment, own: ownOptionNames })
    for (const option of command.options) {
      const [name, key] = [option.long!.slice(2), option.attributeName()]
      const isGiven = !['default', undefined].includes(command.getOptionValueSource(key))
      if (Object.hasOwn(optionTable, name) || isGiven || values[name] == null) continue
      command.setOptionValueWithSource(key, ownValue(option, `${path}: ${name}`, values[name]), 'config')
    }
  })
}

/** `place`: where the value was given, for error messages. */
function ownValue(option: Option, place: string, value: unknown): unknown {
  if (option.isBoolean()) {
    if (value === true || value === 'true' || value === '1') return true
    if (value === false || value === 'false' || value === '0') return false
    throw new GraphmillError('usage', `${place} must be true or false, not ${JSON.stringify(value)}.`)
  }
  const texts = (Array.isArray(value) ? value : [value]).map(String)
  try {
    const { parseArg } = option
    return parseArg
      ? texts.reduce<unknown>((all, text) => parseArg(text, all), option.defaultValue)
      : texts[0]
  } catch (cause) {
    throw new GraphmillError('usage', `${place}: ${(cause as Error).message}`, { cause })
  }
}

/** The names of all options that are not in the table: the configuration file of a command may hold those of others. */
export const ownOptionNames: readonly string[] = [
  'all',
  'by',
  'compare',
  'force',
  'from',
  'id',
  'ignore-groups',
  'min-f1',
  'replay',
  'response-type',
  'schema',
  'stream',
  'strict',
  'term',
  'timeout',
  'until-end',
  'watch',
  'with-others',
]

/** Options that are not in the table, of a command and its subcommands. */
export function ownOptions(command: Command): [Command, Option][] {
  const own = command.options.filter(({ long }) => long && !Object.hasOwn(optionTable, long.slice(2)))
  return [
    ...own.map((option): [Command, Option] => [command, option]),
    ...command.commands.flatMap(ownOptions),
  ]
}

/** The configuration for a command with its flags. Throws `configuration_invalid`. */
export function configOf(command: Command): Config {
  const flags: Record<string, unknown> = {}
  // An option of a single command may have the name of one in the table, such as `parse --format`.
  for (const option of command.options.filter((each) => !choiceOptions.has(each)))
    flags[option.long!.slice(2)] = flagValue(command, option)
  return readConfig({ flags, environment: process.env, own: ownOptionNames })
}

/** For commander, `--no-x` is an `x` that is true unless the flag is given; here it is a flag like any other. */
function flagValue(command: Command, option: Option): unknown {
  const value: unknown = command.getOptionValue(option.attributeName())
  return option.negate ? value === false || undefined : value
}
