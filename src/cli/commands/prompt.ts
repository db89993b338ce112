// `graphmill prompt`: sends one request on prompt-live and prints its reply: text unchanged, values as JSON lines.
import type { Command } from 'commander'
import type { Config } from '../../config/config.ts'
import { longestWait } from '../../config/options.ts'
import { GraphmillError } from '../../errors.ts'
import { PromptClient } from '../../flow/prompt-client.ts'
import type { PromptResponse } from '../../messages/generated.ts'
import { decodeTerms } from '../../prompt/catalogue/terms.ts'
import { brokerOptions, openRegistry, wireIn, withBroker } from '../broker.ts'
import { readNamed } from '../named-file.ts'
import { addOptions, configOf } from '../options.ts'
import { requireFlow } from '../require-flow.ts'

export function addPrompt(command: Command): void {
  command
    .argument('<id>', 'the id of the prompt')
    .option(
      '--term <NAME=JSON|NAME=@FILE>',
      'a term: JSON text, or the text of a file; may be repeated',
      collect,
      [],
    )
    .option('--stream', 'print the reply while the model writes')
    .option('--timeout <SECONDS>', 'how long to wait for the reply', '120')
    .action((id: string, flags: PromptFlags) => ask(id, flags, configOf(command)))
  addOptions(command, [...brokerOptions, 'workspace', 'flow', 'flows'])
}

interface PromptFlags {
  readonly term: string[]
  readonly stream?: boolean
  readonly timeout: string
}

const collect = (value: string, before: readonly string[]) => [...before, value]

async function ask(id: string, flags: PromptFlags, config: Config): Promise<void> {
  const seconds = Number(flags.timeout)
  if (!(seconds > 0 && seconds <= longestWait))
    throw new GraphmillError(
      'usage',
      `--timeout ${flags.timeout} is not a number of seconds up to ${longestWait}.`,
    )
  const terms = Object.fromEntries(await Promise.all(flags.term.map(readTerm)))
  decodeTerms(terms)
  const { space, workspace, flow } = config.options
  const registry = openRegistry(config)
  const wire = wireIn(config)
  await withBroker(config, async ({ broker, signal }) => {
    await requireFlow(broker, config.options)
    const client = await PromptClient.connect({
      ...(registry && { registry }),
      ...(wire && { wire }),
      broker,
      space,
      workspace,
      flow,
    })
    try {
      const options = { streaming: flags.stream ?? false, timeoutMs: seconds * 1000, signal }
      let run: string | undefined
      for await (const replyPart of client.askEncoded(id, terms, options)) {
        if (run !== undefined && run !== replyPart.run.id)
          process.stderr.write('\nthe model was asked again; this is its new reply:\n')
        run = replyPart.run.id
        print(replyPart)
      }
    } finally {
      await client.close()
    }
  })
}

async function readTerm(given: string): Promise<[string, string]> {
  const [, name, value] = /^([^=]+)=(.*)$/s.exec(given) ?? []
  if (name === undefined || value === undefined)
    throw new GraphmillError('usage', `--term ${given} is not NAME=JSON or NAME=@FILE.`)
  if (!value.startsWith('@')) return [name, value]
  return [name, JSON.stringify(await readNamed(value.slice(1)))]
}

function print(replyPart: PromptResponse): void {
  if (replyPart.text !== null) process.stdout.write(replyPart.text)
  if (replyPart.object !== null) {
    const value: unknown = JSON.parse(replyPart.object)
    for (const line of Array.isArray(value) ? value : [value])
      process.stdout.write(`${JSON.stringify(line)}\n`)
  }
  if (!replyPart.endOfStream) return
  if (replyPart.text !== null) process.stdout.write('\n')
  if (replyPart.rejected > 0)
    process.stderr.write(`${replyPart.rejected} rejected: ${JSON.stringify(replyPart.rejections)}\n`)
  if (replyPart.incomplete) process.stderr.write(`the reply is incomplete: ${replyPart.incomplete}\n`)
}
