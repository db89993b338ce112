// `graphmill prompt`: one request on prompt-live, and its reply on standard output: text as it is, values as JSON lines.
import type { Command } from 'commander'
import { longestWait } from '../../config/options.ts'
import { GraphmillError } from '../../errors.ts'
import { PromptClient } from '../../flow/prompt-client.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import type { PromptResponse } from '../../messages/generated.ts'
import { decodeTerms } from '../../prompt/catalogue/terms.ts'
import { brokerOptions, openBroker, openRegistry } from '../broker.ts'
import { readNamed } from '../named-file.ts'
import { addOptions, configOf } from '../options.ts'
import { requireFlow } from '../require-flow.ts'

export function addPrompt(program: Command): void {
  const command = program
    .command('prompt')
    .description('publish a prompt request and print the reply')
    .argument('<id>', 'the prompt')
    .option(
      '--term <NAME=JSON|NAME=@FILE>',
      'a term: JSON text, or the text of a file; may be repeated',
      collect,
      [],
    )
    .option('--stream', 'print the reply while the model writes')
    .option('--timeout <SECONDS>', 'how long to wait', '120')
    .action(async (id: string, flags: { term: string[]; stream?: boolean; timeout: string }) => {
      await ask(id, flags, command)
    })
  addOptions(command, [...brokerOptions, 'workspace', 'flow'])
}

const collect = (value: string, before: readonly string[]) => [...before, value]

async function ask(
  id: string,
  flags: { term: string[]; stream?: boolean; timeout: string },
  command: Command,
): Promise<void> {
  const config = configOf(command)
  const seconds = Number(flags.timeout)
  if (!(seconds > 0 && seconds <= longestWait))
    throw new GraphmillError(
      'usage',
      `--timeout ${flags.timeout} is not a number of seconds up to ${longestWait}.`,
    )
  const timeoutMs = seconds * 1000
  const terms = Object.fromEntries(await Promise.all(flags.term.map(readTerm)))
  decodeTerms(terms)
  const { space, workspace, flow } = config.options
  const shutdown = onShutdown()
  const registry = openRegistry(config)
  const broker = await openBroker(config, shutdown.asked)
  try {
    await requireFlow(broker, config.options)
    const client = await PromptClient.connect({
      ...(registry && { registry }),
      broker,
      space,
      workspace,
      flow,
    })
    try {
      const options = { streaming: flags.stream ?? false, timeoutMs, signal: shutdown.asked }
      let run: string | undefined
      for await (const part of client.askEncoded(id, terms, options)) {
        if (run !== undefined && run !== part.run.id)
          process.stderr.write('\nthe model was asked again; this is its new reply:\n')
        run = part.run.id
        print(part)
      }
    } finally {
      await client.close()
    }
  } finally {
    await broker.close()
    shutdown.dispose()
  }
}

async function readTerm(given: string): Promise<[string, string]> {
  const [, name, value] = /^([^=]+)=(.*)$/s.exec(given) ?? []
  if (name === undefined || value === undefined)
    throw new GraphmillError('usage', `--term ${given} is not NAME=JSON or NAME=@FILE.`)
  if (!value.startsWith('@')) return [name, value]
  return [name, JSON.stringify(await readNamed(value.slice(1)))]
}

function print(part: PromptResponse): void {
  if (part.text !== null) process.stdout.write(part.text)
  if (part.object !== null) {
    const value: unknown = JSON.parse(part.object)
    for (const line of Array.isArray(value) ? value : [value])
      process.stdout.write(`${JSON.stringify(line)}\n`)
  }
  if (!part.endOfStream) return
  if (part.text !== null) process.stdout.write('\n')
  if (part.rejected > 0)
    process.stderr.write(`${part.rejected} rejected: ${JSON.stringify(part.rejections)}\n`)
  if (part.incomplete) process.stderr.write(`the reply is incomplete: ${part.incomplete}\n`)
}
