// Which emission states which triple. An emission is what was made from one chunk (or from a document as a whole) of one version; it
// begins once and is withdrawn once, for ever, so the order in which statements and withdrawals arrive does not matter.
import { hash } from 'node:crypto'
import { emissionKey, type KeySet } from '../messages/emission.ts'
import type { Triple } from './term.ts'

export interface Emission {
  /** Empty for what no document states, such as the triples of an ontology. */
  readonly documentId: string
  /** Empty for what describes a version as a whole. */
  readonly chunkId: string
  /** When the version was loaded for which this was made, in milliseconds since 1970; 0 when it is not known. */
  readonly versionTime: number
}

/** Triples, and the emission that states them. */
export interface Statement {
  readonly emission: Emission
  readonly triples: readonly Triple[]
}

/** What a document no longer states: every emission from `from` to `upTo` whose key is not kept. */
export interface Withdrawal {
  readonly documentId: string
  /** Version times; 0 and 1 differ in whether emissions without one are withdrawn. */
  readonly from: number
  readonly upTo: number
  readonly kept: KeySet
}

interface Scope {
  readonly workspace: string
  readonly flow: string
}

/** Holds triples as long as an emission states them. */
export interface TripleSupport {
  /** As `write`, and keeps who states each triple. */
  state(statements: readonly Statement[], scope: Scope, signal?: AbortSignal): Promise<void>
  /** Removes the triples that only the withdrawn emissions state. Resolves when that is durable; a repeat changes nothing. */
  withdraw(withdrawal: Withdrawal, scope: Scope, signal?: AbortSignal): Promise<void>
}

/** Whether a withdrawal withdraws an emission. */
export function isWithdrawn(emission: Emission, withdrawal: Withdrawal): boolean {
  const { documentId, versionTime } = emission
  return (
    documentId === withdrawal.documentId &&
    isKeyWithdrawn({ key: emissionKey(emission), versionTime }, withdrawal)
  )
}

/** The same for an emission of the withdrawal's document of which only the key is known. */
export function isKeyWithdrawn(
  { key, versionTime }: { readonly key: string; readonly versionTime: number },
  { from, upTo, kept }: Withdrawal,
): boolean {
  return versionTime >= from && versionTime <= upTo && !kept.has(key)
}

/** A name of fixed length for a document of a flow, the same in every process. */
export function documentName(documentId: string, { workspace, flow }: Scope): string {
  return hash('sha256', JSON.stringify([workspace, flow, documentId])).slice(0, 32)
}
