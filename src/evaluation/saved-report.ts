// Reads a report that an earlier run printed with `--format json`.
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { kinds } from './facts.ts'
import { type EvaluationReport, reportFormat } from './report.ts'
import { noCounts } from './score.ts'

/** Throws `report_unfit` unless the text is a report on these gold files. */
export function readReport(text: string, file: string, gold: string): EvaluationReport {
  const unfit = (message: string, cause?: unknown) =>
    new GraphmillError('report_unfit', `${file}: ${message}.`, { cause })
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw unfit(`it is not JSON: ${(cause as Error).message}`, cause)
  }
  if (!isObject(value) || value['format'] !== reportFormat)
    throw unfit('it is not a report of graphmill eval of this version')
  if (value['gold'] !== gold) throw unfit('it is about other gold facts')
  const { scores } = value
  if (!Array.isArray(scores) || !scores.every(isScore)) throw unfit('its scores are damaged')
  if (!isRun(value) || !isKindList(value['kinds'])) throw unfit('it is damaged')
  return value as unknown as EvaluationReport
}

const isRun = ({ model, prompts, cost }: Readonly<Record<string, unknown>>) =>
  typeof model === 'string' &&
  Array.isArray(prompts) &&
  prompts.every((each) => typeof each === 'string') &&
  (cost === null || Number.isFinite(cost))

const isKindList = (value: unknown) =>
  Array.isArray(value) && value.every((each) => isObject(each) && kinds.some((kind) => kind === each['kind']))

function isScore(score: unknown): boolean {
  if (!isObject(score) || typeof score['id'] !== 'string' || !isObject(score['counts'])) return false
  const names = Object.keys(noCounts())
  return Object.entries(score['counts']).every(
    ([kind, counts]) =>
      kinds.some((each) => each === kind) &&
      isObject(counts) &&
      names.every((name) => Number.isSafeInteger(counts[name])),
  )
}
