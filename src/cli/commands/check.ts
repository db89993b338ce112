// `graphmill check`: lists every problem of the configuration, the flows file, the ontologies, the row schemas, and the prompts and
// their schemas.
import type { Command } from 'commander'
import type { FlowConfig } from '../../config/flows.ts'
import { createLogger } from '../../observe/log.ts'
import { readOntologyBounded } from '../../ontology/bounded-load.ts'
import { checkCatalogue } from '../../prompt/catalogue/check-catalogue.ts'
import { formatProblem, type Problem } from '../../prompt/catalogue/problem.ts'
import { checkRowSchemas } from '../../rows/load.ts'
import { limitOptions, limitsOf } from '../documents.ts'
import { flowError, flowsOf, nameOf } from '../flows.ts'
import { addOptions, configOf } from '../options.ts'
import { printTable } from '../table.ts'
import { createWiring } from '../wiring.ts'

export function addCheck(command: Command): void {
  command.action(async () => {
    const config = configOf(command)
    const found: FlowCheck[] = []
    for (const flow of flowsOf(config)) found.push(await checkFlow(flow))
    const problems = distinct(found.flatMap((flow) => flow.problems))
    if (problems.length > 0) process.exitCode = 1
    if (config.options.json)
      return printTable(
        problems.map((problem) => ({ ...problem })),
        true,
      )
    for (const problem of problems) console.error(formatProblem(problem))
    for (const note of new Set(found.flatMap(({ notes }) => notes))) console.error(`note: ${note}`)
    for (const { name, lines } of found)
      for (const line of lines) console.log(config.options.flows ? `${name}: ${line}` : line)
    console.log(
      problems.length === 0
        ? 'no problems'
        : `${problems.length} ${problems.length === 1 ? 'problem' : 'problems'}`,
    )
  })
  addOptions(command, [
    'flows',
    'prompts',
    'ontologies',
    ...limitOptions,
    'schemas',
    'extractors',
    'chunk-size',
    'chunk-overlap',
    'json',
  ])
}

/** The result for one flow: its problems, and what it has. */
interface FlowCheck {
  readonly name: string
  readonly problems: readonly Problem[]
  readonly notes: readonly string[]
  readonly lines: readonly string[]
}

async function checkFlow(flow: FlowConfig): Promise<FlowCheck> {
  const { options } = flow
  const { problems: inPrompts, ids } = await checkCatalogue(options.prompts)
  const { loaded, problems: inOntologies } = await readOntologyBounded(
    options.ontologies,
    limitsOf({ options }),
  )
  const { schemas, problems: inRowSchemas } = await checkRowSchemas(options.schemas)
  const inFiles = [...inPrompts, ...inOntologies, ...inRowSchemas]
  const lines = [`prompts: ${ids.join(', ')}`]
  if (options.ontologies.length > 0) lines.push(`ontologies: ${loaded.ontology.ids.join(', ')}`)
  if (options.schemas.length > 0) lines.push(`row schemas: ${schemas.map(({ name }) => name).join(', ')}`)
  const problems = inFiles.length > 0 ? inFiles : await checkSettings(flow)
  return { name: nameOf(flow), problems, notes: loaded.notes, lines }
}

/** Problems that keep the flow from running although all its files are valid. */
async function checkSettings(flow: FlowConfig): Promise<Problem[]> {
  const parts = {
    fallback: undefined,
    needsModel: false,
    provenance: 'none',
    log: createLogger('silent'),
  } as const
  try {
    await createWiring(parts, new AbortController().signal).wire(flow)
    return []
  } catch (thrown) {
    const { code, message } = flowError(flow, thrown)
    return [{ code, file: flow.options.flows ?? flow.file ?? 'configuration', message }]
  }
}

/** Several flows may have the same problem. */
function distinct(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((problem) => [formatProblem(problem), problem])).values()]
}
