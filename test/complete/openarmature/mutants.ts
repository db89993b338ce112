// Copies of a fixture with one statement made wrong, each of which must fail: a comparison that a runner drops leaves them green.
import type { Fields } from './fixture.ts'

export interface Mutant {
  /** Where it differs, and how. */
  readonly change: string
  readonly document: unknown
}

const statements = new Set(['expected', 'expected_wire_request', 'expected_wire_request_checks'])

/** Every value that the document states about requests and responses, made wrong one at a time. */
export function mutantsOf(document: unknown): Mutant[] {
  return changes(document, '', false).map(([change, changed]) => ({ change, document: changed }))
}

type Change = readonly [string, unknown]

function changes(value: unknown, place: string, isStated: boolean): Change[] {
  if (Array.isArray(value)) {
    const dropped: Change[] =
      isStated && /wire_request\b|wire_requests$|appended_messages$|spans$/.test(place)
        ? value.map((_, index) => [`${place}[${index}] dropped`, value.toSpliced(index, 1)])
        : []
    const inside = value.flatMap((child, index) =>
      changes(child, `${place}[${index}]`, isStated).map(
        ([where, changed]) => [where, value.with(index, changed)] as const,
      ),
    )
    return [...dropped, ...inside]
  }
  if (typeof value === 'object' && value !== null) {
    const fields = value as Fields
    const inside = Object.entries(fields).flatMap(([key, child]) =>
      changes(child, `${place}.${key}`, isStated || statements.has(key)).map(
        ([where, changed]) => [where, { ...fields, [key]: changed }] as const,
      ),
    )
    return isStated ? [...inside, [`${place} with a further key`, { ...fields, further: true }]] : inside
  }
  if (!isStated) return []
  const isAbsent = /absent\[\d+\]$/.test(place)
  const wrong = isAbsent
    ? 'openarmature.llm.attempt_index'
    : typeof value === 'string'
      ? `${value}x`
      : typeof value === 'number'
        ? value + 1
        : 'wrong'
  return [[`${place} = ${JSON.stringify(wrong)}`, wrong]]
}
