// `graphmill doctor`: checks everything that the configuration names with one call each, and says what to fix. Exits with 1 if a
// check fails.
import type { Command } from 'commander'
import { strangeVariables } from '../../config/config.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { brokerOptions } from '../broker.ts'
import type { CheckResult } from '../check-result.ts'
import { coloured } from '../colour.ts'
import { runChecks } from '../diagnosis.ts'
import { ontologyOptions } from '../ontologies.ts'
import { addOptions, configOf, ownOptionNames } from '../options.ts'
import { printLine, printTable } from '../table.ts'

export function addDoctor(command: Command): void {
  command.action(async () => {
    const config = configOf(command)
    const shutdown = onShutdown()
    let wrong = false
    try {
      for await (const result of runChecks(config, shutdown.asked)) {
        wrong ||= result.state === 'failed'
        if (config.options.json) printTable([{ ...result }], true)
        else print(result)
      }
    } finally {
      shutdown.dispose()
    }
    for (const strange of strangeVariables(process.env, ownOptionNames))
      process.stderr.write(`note: ${strange}\n`)
    if (wrong) process.exitCode = 1
  })
  addOptions(command, [
    ...brokerOptions,
    'llm',
    'model',
    'llm-timeout',
    'llm-call-timeout',
    'num-ctx',
    'flows',
    'prompts',
    'schemas',
    ...ontologyOptions,
    'store',
    'store-protocol',
    'store-token',
    'json',
  ])
}

const colours = { ok: 'green', failed: 'red', skipped: 'yellow' } as const

function print({ check, state, detail, fix }: CheckResult): void {
  const word = coloured(colours[state], state.padEnd(7), process.stdout)
  printLine(`${word}  ${check.padEnd(15)}  ${detail}`)
  if (fix) printLine(`${' '.repeat(26)}${fix}`)
}
