// `graphmill load`: publishes documents for the processors of a flow. Prints one JSON object a document.
import type { Command } from 'commander'
import { topicSpec } from '../../broker/topics.ts'
import { findDocuments, type NamedSource } from '../../documents/read.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { systemClock, uuids } from '../../flow/clock.ts'
import { loadDocument } from '../../flow/load-document.ts'
import { outputRoute } from '../../flow/ports.ts'
import { createCircuits } from '../../flow/runner/circuits.ts'
import { createSchemasTopic } from '../../flow/schemas-topic.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { createCodec } from '../../messages/codec.ts'
import { loadSchemas } from '../../messages/registry.ts'
import { brokerOptions, openBroker, openRegistry } from '../broker.ts'
import { documentOptions, findOptions } from '../documents.ts'
import { failureText } from '../failure.ts'
import { flowOf } from '../flows.ts'
import { addOptions, configOf } from '../options.ts'
import { say } from '../progress.ts'

/** What comes of a document that was loaded before. */
const loadedAgain =
  'A document that is loaded again keeps its ids and is extracted again: facts that were found before are not doubled, but each attempt adds provenance of its own (none with `run --provenance none`) and, where the model answers otherwise, other facts.'

export function addLoad(program: Command): void {
  const command = program
    .command('load')
    .description('publish documents for the processors of a flow')
    .argument('<files...>', 'files, folders, patterns, or - for standard input')
    .addHelpText('after', `\n${loadedAgain}`)
    .action(async (files: string[]) => {
      const failures = await load(files, command)
      if (failures > 0) process.exitCode = 4
    })
  addOptions(command, [...brokerOptions, 'workspace', 'flow', 'flows', 'collection', ...documentOptions])
}

async function load(files: readonly string[], command: Command): Promise<number> {
  const config = configOf(command)
  const { topics, options } = flowOf(config)
  const { space, workspace, flow } = options
  const isAsked = config.origins.collection === 'flag' || config.origins.collection === 'environment'
  const { collection } = isAsked ? config.options : options
  const shutdown = onShutdown()
  const broker = await openBroker(config, shutdown.asked)
  const codec = createCodec(loadSchemas())
  const scope = { workspace, flow }
  const circuits = createCircuits()
  let failures = 0
  let loaded = 0
  try {
    const specs = (['document', 'progress'] as const).map((port) =>
      topicSpec(outputRoute(port, { space, ...scope }).topic, topics[port]),
    )
    await broker.ensureTopics(specs)
    await createSchemasTopic(broker, codec, space, openRegistry(config)).announce(shutdown.asked)
    for (const named of files) {
      let found: NamedSource[] = []
      try {
        found = await findDocuments(named, shutdown.asked, findOptions(config, named, say))
      } catch (thrown) {
        report(thrown)
      }
      for (const document of found) {
        try {
          const { documentId, parts } = await loadDocument(
            document,
            {
              broker,
              codec,
              circuits,
              clock: systemClock,
              ids: uuids,
              space,
              scope,
              collection,
              source: 'load',
            },
            shutdown.asked,
          )
          loaded++
          process.stdout.write(`${JSON.stringify({ documentId, parts, title: document.title })}\n`)
        } catch (thrown) {
          report(thrown)
        }
      }
    }
    return failures
  } catch (thrown) {
    if (!shutdown.asked.aborted) throw thrown
    throw new GraphmillError(
      'aborted',
      `Stopped after ${loaded} whole documents: run the same command again for the rest. ${loadedAgain}`,
    )
  } finally {
    await broker.close()
    shutdown.dispose()
  }

  function report(thrown: unknown): void {
    const error = toGraphmillError(thrown)
    if (!error.code.startsWith('document_')) throw error
    failures++
    process.stderr.write(`graphmill: ${failureText(error)} ${error.remedy}\n`)
  }
}
