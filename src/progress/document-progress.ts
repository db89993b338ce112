// What is known of one document: its parts, which units of its chunks are done (bits), and what was seen of those that are not.
import type { Message } from '../messages/envelope.ts'
import type { Progress } from '../messages/generated.ts'

export type Counts = Record<string, number>

export interface Tokens {
  promptTokens: number
  completionTokens: number
  /** Calls whose tokens the server did not report. */
  unreported: number
}

/** What was counted of complete runs; of runs that failed their tokens and calls. */
export interface Totals extends Tokens {
  readonly facts: Counts
  readonly rejected: Counts
  repaired: number
  duplicates: number
  /** Calls, by what they were for: first, continuation, reask and so on; see schemas/spent.avsc. */
  readonly calls: Counts
  /** The tokens again, by the model as the server names it; without what was remembered and cost nothing. */
  readonly models: Record<string, Tokens>
}

export interface Reason {
  /** A code, such as `document_encrypted` or `empty_document`. */
  readonly type: string
  /** In one sentence. */
  readonly message: string
}

export type Entry = Message<'Progress'>

/** A unit of a chunk that is not done: what was seen of its runs, and what of it is dead. */
export interface OpenUnit {
  readonly runs: Map<string, SeenRun>
  /** The run whose counts are in the totals; a cut-off one gives way to the first that is whole. */
  counted: SeenRun | undefined
  /** Ids of dead messages that held all of it (a chunk, a request, an error reply), with the reason. */
  readonly wholeDead: Map<string, string>
  /** Ids of dead messages that held a part of it (replies, facts, triples), with the reason. */
  readonly partDead: Map<string, string>
  /** When the newest of these died. */
  partDeadAt: number
  /** What was seen since of runs that began again, by run: a whole one brings back all that was dead. */
  readonly again: Map<string, SeenRun>
  /** Runs that failed, and whose tokens are in the totals. */
  readonly lost: Set<string>
}

export interface SeenRun {
  readonly seqs: Set<number>
  /** The place of its last part. */
  last: number | undefined
  /** Why it leaves its unit partial; known when all of its parts are. */
  incomplete: string | undefined
  readonly totals: Totals
}

/** A part of the document that died before it was chunks. */
export interface DeadPart {
  /** Which part; null where its message could not be read. */
  readonly part: number | null
  readonly time: number
  readonly reason: Reason
}

/** Sets of chunks as bits: by unit and part, a bit a chunk. */
export type ChunkSets = Map<string, Uint8Array>

/** Units that ended in the same way, for the same reason: see compaction.ts. */
export interface Fold {
  /** Cut off, hurt by a dead message (with a run counted, or none yet: `lost`), or dead. */
  readonly ending: 'cut' | 'hurt' | 'lost' | 'dead'
  readonly reason: string
  readonly units: ChunkSets
  count: number
}

/** How many chunks a part has, and what is expected of each. */
export interface PartSize {
  readonly chunks: number
  readonly units: readonly string[]
  /** When it was cut, in milliseconds since 1970; undefined where an older ledger did not keep it. */
  readonly time?: number | undefined
}

export interface Document {
  readonly id: string
  title: string
  parts: number | undefined
  /** When the last of its parts was published, in milliseconds since 1970; undefined like `parts`. */
  loadedAt: number | undefined
  /** Why it could not be read. */
  failed: Reason | undefined
  /** By what each death names as its cause. */
  readonly deadParts: Map<string, DeadPart>
  /** Deaths that were taken back, the newest of them: told again, they are nothing new. */
  readonly replayed: Set<string>
  readonly chunksOfPart: Map<number, PartSize>
  readonly done: ChunkSets
  doneCount: number
  readonly open: Map<string, OpenUnit>
  /** Further units that ended badly, where there are very many. */
  readonly folds: Fold[]
  /** Dead messages of units that are not known yet: the part of the document was not announced. */
  unplaced: Entry[]
  readonly totals: Totals
}

export function emptyDocument(id: string): Document {
  return {
    id,
    title: '',
    parts: undefined,
    loadedAt: undefined,
    failed: undefined,
    deadParts: new Map(),
    replayed: new Set(),
    chunksOfPart: new Map(),
    done: new Map(),
    doneCount: 0,
    open: new Map(),
    folds: [],
    unplaced: [],
    totals: emptyTotals(),
  }
}

export const emptyUnit = (): OpenUnit => ({
  runs: new Map(),
  counted: undefined,
  wholeDead: new Map(),
  partDead: new Map(),
  partDeadAt: Number.POSITIVE_INFINITY,
  again: new Map(),
  lost: new Set(),
})

export const emptyRun = (): SeenRun => ({
  seqs: new Set(),
  last: undefined,
  incomplete: undefined,
  totals: emptyTotals(),
})

/** Adds a part to its run; whether all parts of the run are there now. */
export function addToRun(run: SeenRun, part: Progress): boolean {
  if (!run.seqs.has(part.seq)) {
    run.seqs.add(part.seq)
    addProgress(run.totals, part)
    if (part.last) {
      run.last = part.seq
      run.incomplete = part.incomplete ?? undefined
    }
  }
  if (run.last === undefined || run.seqs.size <= run.last) return false
  if (sum(run.totals.facts) === 0 && sum(run.totals.rejected) > 0) run.incomplete ??= 'no_facts'
  return true
}

const sum = (counts: Counts) => Object.values(counts).reduce((total, count) => total + count, 0)

/** Stands for a run that was counted when its unit was done: its totals are in, and stay. */
export const countedBefore: SeenRun = {
  seqs: new Set(),
  last: 0,
  incomplete: undefined,
  totals: emptyTotals(),
}

export type UnitState = 'running' | 'done' | 'partial' | 'dead'

export function stateOfUnit({ counted, wholeDead, partDead }: OpenUnit): UnitState {
  if (counted && !counted.incomplete && partDead.size === 0) return 'done'
  if (counted || partDead.size > 0) return 'partial'
  return wholeDead.size > 0 ? 'dead' : 'running'
}

/** The key of a unit of a chunk, and of a unit in a part. */
export const unitKey = (unit: string, place: string | number) => `${unit}\n${place}`

export interface ChunkPlace {
  readonly part: number
  readonly index: number
}

/** Part and index from `<documentId>/<part>/<index>`. */
export function chunkPlace(chunkId: string): ChunkPlace | undefined {
  const found = /\/(\d+)\/(\d+)$/.exec(chunkId)
  return found ? { part: Number(found[1]), index: Number(found[2]) } : undefined
}

export function isDone(document: Document, unit: string, { part, index }: ChunkPlace): boolean {
  return hasBit(document.done, unitKey(unit, part), index)
}

export function setDone(document: Document, unit: string, { part, index }: ChunkPlace): void {
  setBit(document.done, unitKey(unit, part), index)
  document.doneCount++
}

export function clearDone(document: Document, unit: string, { part, index }: ChunkPlace): void {
  clearBit(document.done, unitKey(unit, part), index)
  document.doneCount--
}

/** Forgets which of the part's units are done, but for those below `chunks` that are among `units`. */
export function keepDone(document: Document, part: number, { chunks, units }: PartSize): void {
  for (const [key, bits] of document.done) {
    const [unit, of] = key.split('\n') as [string, string]
    if (Number(of) !== part) continue
    const end = units.includes(unit) ? chunks : 0
    for (let index = end; index < bits.length * 8; index++)
      if (hasBit(document.done, key, index)) clearDone(document, unit, { part, index })
  }
}

export function hasBit(sets: ChunkSets, key: string, index: number): boolean {
  return ((sets.get(key)?.[index >> 3] ?? 0) & (1 << (index & 7))) !== 0
}

export function setBit(sets: ChunkSets, key: string, index: number): void {
  let bits = sets.get(key)
  if (!bits || bits.length <= index >> 3) {
    const grown = new Uint8Array(Math.max(16, ((index >> 3) + 1) * 2))
    grown.set(bits ?? [])
    bits = grown
    sets.set(key, bits)
  }
  bits[index >> 3]! |= 1 << (index & 7)
}

export function clearBit(sets: ChunkSets, key: string, index: number): void {
  const bits = sets.get(key)
  if (bits && index >> 3 < bits.length) bits[index >> 3]! &= ~(1 << (index & 7))
}

export function emptyTotals(): Totals {
  return {
    facts: named(),
    rejected: named(),
    repaired: 0,
    duplicates: 0,
    calls: named(),
    models: named(),
    ...emptyTokens(),
  }
}

/** Names come from servers and messages: none of them may mean a prototype. */
function named<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>
}

function emptyTokens(): Tokens {
  return { promptTokens: 0, completionTokens: 0, unreported: 0 }
}

/** Adds what one part of a run says. */
export function addProgress(totals: Totals, entry: Progress): void {
  addCounts(totals.facts, entry.facts, 1)
  addCounts(totals.rejected, entry.rejected, 1)
  totals.repaired += entry.repaired
  totals.duplicates += entry.duplicates
  if (entry.last) addUsage(totals, entry)
}

/** Adds the tokens of a run, and its calls. */
export function addUsage(totals: Totals, { usage, model }: Progress): void {
  const spent = usage?.spent ?? []
  if (spent.length === 0) {
    const tokens = reported(usage)
    addTokens(totals, tokens, 1)
    addTokens(tokensOf(totals, model ?? ''), tokens, 1)
  }
  for (const each of spent) {
    const tokens = reported(each, each.calls)
    addCounts(totals.calls, { [each.reason]: each.calls }, 1)
    addTokens(totals, tokens, 1)
    if (each.reason !== 'cached') addTokens(tokensOf(totals, each.model), tokens, 1)
  }
}

/** The tokens of some calls, as far as the server reported them. */
function reported(
  usage: { readonly promptTokens: number | null; readonly completionTokens: number | null } | null,
  calls = 1,
): Tokens {
  return {
    promptTokens: usage?.promptTokens ?? 0,
    completionTokens: usage?.completionTokens ?? 0,
    unreported: usage?.completionTokens == null ? calls : 0,
  }
}

export function addTotals(totals: Totals, more: Totals, sign: 1 | -1): void {
  addCounts(totals.facts, more.facts, sign)
  addCounts(totals.rejected, more.rejected, sign)
  addCounts(totals.calls, more.calls, sign)
  totals.repaired += sign * more.repaired
  totals.duplicates += sign * more.duplicates
  addTokens(totals, more, sign)
  for (const [model, tokens] of Object.entries(more.models)) addTokens(tokensOf(totals, model), tokens, sign)
}

function tokensOf({ models }: Totals, model: string): Tokens {
  models[model] ??= emptyTokens()
  return models[model]
}

function addTokens(tokens: Tokens, more: Tokens, sign: 1 | -1): void {
  tokens.promptTokens += sign * more.promptTokens
  tokens.completionTokens += sign * more.completionTokens
  tokens.unreported += sign * more.unreported
}

function addCounts(counts: Counts, more: Readonly<Counts>, sign: 1 | -1): void {
  for (const [name, count] of Object.entries(more)) counts[name] = (counts[name] ?? 0) + sign * count
}
