// `graphmill config`: prints the value of every option and where it came from. Secrets are not shown.
import type { Command } from 'commander'
import { maskAddress } from '../../config/address.ts'
import { type Config, strangeVariables, variableOf } from '../../config/config.ts'
import { serverVariables } from '../../config/models.ts'
import {
  defaultsText,
  fileOption,
  isSecret,
  type OptionEntry,
  type OptionName,
  optionTable,
} from '../../config/options.ts'
import type { Secret } from '../../config/secret.ts'
import { addOptions, configOf, ownOptionNames } from '../options.ts'
import { printTable } from '../table.ts'

export function addConfig(command: Command): void {
  command.action(() => {
    const config = configOf(command)
    const settings = settingsOf(config)
    if (config.options.json) printTable(settings, true)
    else
      printTable(
        settings.map((setting) => ({ ...setting, value: textOf(setting) })),
        false,
      )
    for (const strange of strangeVariables(process.env, ownOptionNames))
      process.stderr.write(`note: ${strange}\n`)
  })
  addOptions(
    command,
    (Object.keys(optionTable) as OptionName[]).filter((name) => name !== 'config'),
  )
}

type Setting = {
  readonly option: string
  /** Null if there is none; an object by command if the default differs between commands. */
  readonly value: Exclude<Config['options'][OptionName], Secret> | Readonly<Record<string, string>> | null
  /** `default`, or the flag, variable or file. */
  readonly from: string
}

function settingsOf({ options, origins, file, servers, cacheDir }: Config): Setting[] {
  const ofOptions = (Object.entries(optionTable) as [OptionName, OptionEntry][]).map(
    ([option, { defaults, address }]): Setting => {
      const from = (name: string) =>
        ({ flag: `--${name}`, environment: variableOf(name), file: file ?? '', default: 'default' })[
          origins[option]
        ]
      if (isSecret(option)) {
        const secret = options[option]
        const name = secret && 'file' in secret ? fileOption(option) : option
        return { option, value: secret ? '***' : null, from: from(name) }
      }
      const value = (option === 'cache-dir' ? cacheDir : options[option]) ?? defaults ?? null
      return { option, value: shown(value, address === true), from: from(option) }
    },
  )
  const ofServers = Object.entries(serverVariables).map(([name, { variable, holds }]) => {
    const value = servers[name as keyof typeof servers]
    const from = value === undefined ? 'default' : 'environment'
    if (typeof value === 'object') return { option: variable, value: '***', from }
    return { option: variable, value: shown(value ?? null, holds === 'address'), from }
  })
  return [...ofOptions, ...ofServers]
}

/** Addresses may contain credentials, even in options that should have none. */
function shown(value: Setting['value'], isAddress: boolean): Setting['value'] {
  if (Array.isArray(value)) return value.map((each) => shown(each, isAddress)).map(String)
  if (typeof value !== 'string' || !(isAddress || value.includes('://'))) return value
  return maskAddress(value)
}

function textOf({ option, value }: Setting): string {
  if (value === null) return '-'
  if (typeof value === 'object' && !Array.isArray(value))
    return defaultsText(optionTable[option as OptionName])
  return Array.isArray(value) ? value.join(',') || '-' : String(value)
}
