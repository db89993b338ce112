// `graphmill eval`: extracts from documents with known facts, and reports what was found. Exit: 0 measured, 4 some chunk dead or document
// failed, 2 wrong usage, 1 anything else, such as an F1 below --min-f1 or documents that were not finished.
import { type Command, InvalidArgumentError } from 'commander'
import type { Config } from '../../config/config.ts'
import { kindExtractors } from '../../evaluation/facts.ts'
import { type GoldSummary, summariseGold } from '../../evaluation/gold.ts'
import type { GoldTerms } from '../../evaluation/gold-facts.ts'
import { type ReplayMode, replayModes } from '../../evaluation/replay.ts'
import { compareReports, type EvaluationReport } from '../../evaluation/report.ts'
import { htmlOf, viewOf } from '../../evaluation/report-view.ts'
import { readReport } from '../../evaluation/saved-report.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { readOntologyBounded } from '../../ontology/bounded-load.ts'
import { sound } from '../../ontology/load.ts'
import { redact } from '../../redact.ts'
import { loadRowSchemas } from '../../rows/load.ts'
import { costOptions } from '../cost.ts'
import { limitsOf } from '../documents.ts'
import { evaluate } from '../evaluation.ts'
import { readNamed } from '../named-file.ts'
import { addOptions, choiceOption, configOf } from '../options.ts'
import { say } from '../progress.ts'
import { printLine, printTable } from '../table.ts'
import { chosenExtractors, modelOptions } from '../wiring.ts'

interface EvalFlags {
  readonly replay?: ReplayMode
  readonly format: 'table' | 'json' | 'html'
  readonly compare?: string
  readonly minF1?: number
}

export function addEval(command: Command): void {
  command
    .argument('<gold...>', 'files in JSON Lines: one document with its facts a line')
    .addOption(
      choiceOption('--replay <HOW>', 'ask no model: reply with the gold facts, as they are or damaged', [
        ...replayModes,
      ]),
    )
    .addOption(
      choiceOption('--format <FORMAT>', 'form of the report', ['table', 'json', 'html']).default('table'),
    )
    .option('--compare <FILE>', 'compare with an earlier report in JSON, on the same gold files')
    .option('--min-f1 <NUMBER>', 'exit with 1 if the F1 of all kinds together is lower', readShare)
    .action(async (paths: string[], flags: EvalFlags) => {
      process.exitCode = await runEval(paths, flags, configOf(command))
    })
  addOptions(command, [
    ...modelOptions,
    ...costOptions,
    'schemas',
    'ungrounded',
    'chunk-size',
    'chunk-overlap',
    'workspace',
    'log-level',
  ])
}

function readShare(text: string): number {
  const value = Number(text)
  if (text.trim() !== '' && value >= 0 && value <= 1) return value
  throw new InvalidArgumentError('It must be a number from 0 to 1.')
}

async function runEval(paths: readonly string[], flags: EvalFlags, given: Config): Promise<number> {
  const terms = await termsOf(given)
  const summary = await summariseGold(paths, terms)
  const earlier =
    flags.compare === undefined
      ? undefined
      : readReport(await readNamed(flags.compare), flags.compare, summary.digest)
  const shutdown = onShutdown()
  const fault = new AbortController()
  const signal = AbortSignal.any([shutdown.asked, fault.signal])
  try {
    const config = withExtractors(given, summary)
    const report = await evaluate({ paths, terms, summary, config, replay: flags.replay }, fault, signal)
    print(report, earlier, flags.format)
    if (fault.signal.aborted) throw fault.signal.reason
    if (report.scored < report.documents) {
      say('stopped before the end, by Ctrl-C or --max-cost: only the documents that had ended are scored')
      return 1
    }
    return exitCodeOf(report, flags.minF1)
  } finally {
    shutdown.dispose()
  }
}

/** What the gold files may refer to, by `--ontologies` and `--schemas`. */
async function termsOf(config: Config): Promise<GoldTerms> {
  const { ontologies, schemas } = config.options
  const read = ontologies.length > 0 ? await readOntologyBounded(ontologies, limitsOf(config)) : undefined
  return {
    ontology: read && sound(read).ontology,
    rowSchemas: schemas.length > 0 ? await loadRowSchemas(schemas) : [],
  }
}

/** The extractors that are named, else those for the kinds in the gold files. */
function withExtractors(config: Config, { kinds }: GoldSummary): Config {
  const isNamed = config.origins.extractors !== 'default'
  const extractors = isNamed
    ? chosenExtractors(config)
    : kinds.map((kind) => `extract-${kindExtractors[kind]}`)
  return {
    ...config,
    options: { ...config.options, extractors: [...new Set(extractors)] },
    origins: { ...config.origins, extractors: 'flag' },
  }
}

function print(
  report: EvaluationReport,
  earlier: EvaluationReport | undefined,
  format: EvalFlags['format'],
): void {
  const comparison = earlier && compareReports(earlier, report)
  if (format === 'json') {
    printLine(JSON.stringify({ ...report, ...(comparison && { comparison }) }))
    return
  }
  const view = viewOf(report, comparison)
  if (format === 'html') {
    process.stdout.write(redact(htmlOf(view)))
    return
  }
  for (const { title, rows } of view.tables) {
    printLine(title)
    printTable(rows, false)
    printLine('')
  }
  const width = Math.max(...view.lines.map(([name]) => name.length))
  for (const [name, text] of view.lines) printLine(`${name.padEnd(width)}  ${text}`)
}

function exitCodeOf({ failed, overall }: EvaluationReport, minF1: number | undefined): 0 | 1 | 4 {
  const isBelow = minF1 !== undefined && !((overall.f1.value ?? 0) >= minF1)
  if (isBelow) say(`graphmill: the F1 of all kinds together is below --min-f1 ${minF1}`)
  // A failure says more about the server than the score does about the model.
  if (failed > 0) return 4
  return isBelow ? 1 : 0
}
