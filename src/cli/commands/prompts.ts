// `graphmill prompts import`: writes the prompts of a TrustGraph configuration to one file each. It writes all files or none, and
// overwrites existing files only with --force.
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Command } from 'commander'
import { stringify } from 'yaml'
import { optionTable } from '../../config/options.ts'
import { GraphmillError } from '../../errors.ts'
import { checkCatalogue } from '../../prompt/catalogue/check-catalogue.ts'
import { findConfiguration, readConfiguration } from '../../prompt/catalogue/configuration.ts'
import type { PromptDefinition } from '../../prompt/catalogue/definition.ts'
import { formatProblem, type Problem, problemsError } from '../../prompt/catalogue/problem.ts'
import { parseSource, reporter } from '../../prompt/catalogue/source.ts'
import { readNamed } from '../named-file.ts'
import { addOptions, configOf } from '../options.ts'
import { outFolder } from '../stores.ts'
import { printTable } from '../table.ts'

export function addPrompts(prompts: Command): void {
  const command = prompts
    .command('import')
    .description("write the prompts of TrustGraph's configuration to a folder, one YAML file each")
    .argument('<file>', "TrustGraph's prompt configuration, JSON or YAML")
    .option('--force', 'overwrite existing files')
    .action(async (file: string, { force = false }: { force?: boolean }) => {
      const { options } = configOf(command)
      const out = outFolder(options) ?? optionTable.out.defaults['prompts import']
      printTable(await importPrompts(file, { out, force }), options.json)
      process.stderr.write(`use them with --prompts ${out}\n`)
    })
  addOptions(command, ['out', 'json'])
}

interface ImportOptions {
  readonly out: string
  readonly force: boolean
}

/**
 * Throws `prompt_invalid` if the file is no such configuration or has a prompt that `check` refuses, and `usage` if a file exists
 * already.
 */
async function importPrompts(
  file: string,
  { out, force }: ImportOptions,
): Promise<{ prompt: string; file: string }[]> {
  const files = await readFiles(file)
  const inTheWay = [...files.keys()].map((name) => join(out, name)).filter((path) => existsSync(path))
  if (inTheWay.length > 0 && !force)
    throw new GraphmillError(
      'usage',
      `Nothing was written: ${inTheWay.join(', ')} ${inTheWay.length > 1 ? 'exist' : 'exists'} already. Choose another --out, or use --force to overwrite.`,
    )
  await mkdir(out, { recursive: true })
  for (const [name, content] of files) await writeFile(join(out, name), content)
  return [...files.keys()].map((name) => ({ prompt: name.replace(/\.yaml$/, ''), file: join(out, name) }))
}

/** The files by name. */
async function readFiles(file: string): Promise<ReadonlyMap<string, string>> {
  const problems: Problem[] = []
  const source = parseSource(await readNamed(file), file, problems)
  const found = source && findConfiguration(source.value)
  const files = new Map<string, string>()
  if (source && found) {
    const report = reporter(source, problems)
    const { system, prompts } = readConfiguration(found.value, found.at, report)
    if (system?.prompt !== undefined)
      files.set('system.yaml', yaml({ dialect: system.dialect, prompt: system.prompt }))
    for (const prompt of prompts) {
      if (!/^[\w-][\w.-]*$/.test(prompt.id) || prompt.id === 'system')
        report([...found.at, `template.${prompt.id}`], 'this id cannot be a file name')
      else files.set(`${prompt.id}.yaml`, yaml(contentOf(prompt)))
    }
  } else if (source)
    problems.push({
      code: 'prompt_invalid',
      file,
      message: "not TrustGraph's configuration: it has no `template.<id>`",
    })
  // Check templates and schemas too, so that `check` accepts what is written.
  if (problems.length === 0) problems.push(...(await checkCatalogue([file])).problems)
  const [first, ...others] = problems
  if (first) {
    for (const problem of others) process.stderr.write(`${formatProblem(problem)}\n`)
    throw problemsError([first, ...others])
  }
  return files
}

function contentOf({
  prompt,
  dialect,
  responseType,
  schema,
  terms,
  sampling,
  ...rest
}: PromptDefinition): object {
  return {
    ...(rest.description !== undefined && { description: rest.description }),
    'response-type': responseType,
    dialect,
    prompt,
    ...(schema !== undefined && { schema }),
    ...(Object.keys(terms).length > 0 && { terms }),
    ...(rest.outputMode !== undefined && { 'output-mode': rest.outputMode }),
    ...(sampling.temperature !== undefined && { temperature: sampling.temperature }),
    ...(sampling.maxTokens !== undefined && { 'max-tokens': sampling.maxTokens }),
    ...(rest.maxContinuations !== undefined && { 'max-continuations': rest.maxContinuations }),
    ...(rest.aliases.length > 0 && { aliases: rest.aliases }),
    ...(rest.examples.length > 0 && { examples: rest.examples }),
  }
}

const yaml = (value: object) => stringify(value, { lineWidth: 0 })
