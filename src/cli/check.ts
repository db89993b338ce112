// `graphmill check`: everything that is wrong with the configuration, the ontologies, the row schemas, the prompts and their schemas, at once.
import type { Command } from 'commander'
import { readOntology } from '../ontology/load.ts'
import { checkCatalogue } from '../prompt/catalogue.ts'
import { formatProblem } from '../prompt/problem.ts'
import { checkRowSchemas } from '../rows/load.ts'
import { addOptions, configOf } from './options.ts'
import { printTable } from './table.ts'

export function addCheck(program: Command): void {
  const command = program
    .command('check')
    .description(
      "validate the configuration, the ontologies, the row schemas, the prompts and their schemas, and run the prompts' worked examples",
    )
    .action(async () => {
      const { options } = configOf(command)
      const { problems: inPrompts, ids } = await checkCatalogue(options.prompts)
      const { loaded, problems: inOntologies } = await readOntology(options.ontologies)
      const { schemas, problems: inRowSchemas } = await checkRowSchemas(options.schemas)
      const problems = [...inPrompts, ...inOntologies, ...inRowSchemas]
      if (problems.length > 0) process.exitCode = 1
      if (options.json)
        return printTable(
          problems.map((problem) => ({ ...problem })),
          true,
        )
      for (const problem of problems) console.error(formatProblem(problem))
      for (const note of loaded.notes) console.error(`note: ${note}`)
      console.log(`prompts: ${ids.join(', ')}`)
      if (options.ontologies.length > 0) console.log(`ontologies: ${loaded.ontology.ids.join(', ')}`)
      if (options.schemas.length > 0)
        console.log(`row schemas: ${schemas.map(({ name }) => name).join(', ')}`)
      console.log(
        problems.length === 0
          ? 'no problems'
          : `${problems.length} ${problems.length === 1 ? 'problem' : 'problems'}`,
      )
    })
  addOptions(command, ['prompts', 'ontologies', 'schemas', 'json'])
}
