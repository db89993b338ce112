// The table of commands, and what a command line loads.
import { Command } from 'commander'
import { expect, test } from 'vitest'
import { processors } from '../../processors/index.ts'
import { loadProcessors, processorNames } from '../../processors/modules.ts'
import { commands } from '../../src/cli/commands.ts'
import { ownOptionNames, ownOptions } from '../../src/cli/options.ts'
import { graphmill } from '../support/command.ts'

test('the options that are not in the table are those of the commands', async () => {
  const program = new Command('graphmill')
  for (const [name, { load }] of Object.entries(commands)) (await load())(program.command(name))
  const own = ownOptions(program).map(([, option]) => option.long!.slice(2))
  expect([...new Set(own)].sort()).toEqual(ownOptionNames)
})

test('the processors that are loaded by name are all processors', async () => {
  expect(await loadProcessors()).toEqual(processors)
  expect(processorNames).toEqual(processors.map(({ name }) => name))
})

test.each([
  ['run', '--help'],
  ['help', 'run'],
])('%s %s lists the options of the command', async (...args) => {
  const { code, stdout } = await graphmill(args)
  expect(stdout).toContain('Usage: graphmill run [options] [processors...]')
  expect(stdout).toContain('--watchdog <SECONDS>')
  expect(code).toBe(0)
})

test('a command that does not exist is an error, with a suggestion', async () => {
  const { code, stderr } = await graphmill(['rnu'])
  expect(stderr).toContain("Unknown command 'rnu'")
  expect(stderr).toContain('Did you mean run?')
  expect(code).toBe(2)
})
