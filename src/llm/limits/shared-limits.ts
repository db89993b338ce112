// The limits of a model that replicas share: this replica's part of them, which the rate limiter keeps, and the leases by which it
// publishes what it wants, has and has spent. Leases of others are checked: what is out of range is no lease.
import type { GraphmillError } from '../../errors.ts'
import type { BudgetUseInit, LimitLease, LimitLeaseInit } from '../../messages/generated.ts'
import type { Price } from './prices.ts'
import { type BudgetTerms, type BudgetUse, type CallEnd, createSharedBudget } from './shared-budget.ts'
import { type Claim, createShares, type Demand, expiryMs } from './shares.ts'

/** The calls of this replica, by its rate limiter. */
export interface LimitUser {
  readonly running: number
  readonly waiting: number
  /** Since when some wait all the time; infinite when none do. */
  readonly waitsSince: number
  /** The tokens of the largest call that is next. */
  readonly nextTokens: number
  /** More may be possible now. */
  serve(): void
}

/** What the rate limiter asks before a call. */
export interface SharedLimits {
  /** The share of the limits that calls may use now, from 0 to 1. */
  share(): number
  /** How many calls may run at once. */
  room(): number
  /** Whether the budget takes one more call. */
  admits(): boolean
  /** Why no call can begin before the next period. */
  exhausted(): GraphmillError | undefined
  /** A call begins. Call the result when it has ended. */
  begin(tokens: number): (end: CallEnd) => void
  attach(user: LimitUser): void
  /** Calls wait that might begin with a larger share. */
  needed(): void
}

/** What is published and read for them. */
export interface LeaseHolder {
  readonly limits: SharedLimits
  readonly model: string
  /** Set by what publishes leases: calls wait. */
  onNeeded: () => void
  /** The lease to publish now, if any. Two are at least 2 s apart. */
  next(): LimitLeaseInit | undefined
  /** The last lease: nothing is held or wanted. */
  last(): LimitLeaseInit
  /** A lease was read, of this or another replica. */
  heard(lease: LimitLease): void
  budget(): (BudgetTerms & { readonly used: number }) | undefined
}

export interface SharedLimitsOptions {
  readonly replica: string
  /** Names the model and its server. */
  readonly model: string
  readonly concurrency?: number | undefined
  readonly requestsPerMinute?: number | undefined
  readonly tokensPerMinute?: number | undefined
  readonly budget?: (BudgetTerms & { readonly price: Price }) | undefined
  /** Milliseconds that never go back. Default `performance.now`. */
  readonly now?: () => number
  /** Milliseconds since 1970. Default `Date.now`. */
  readonly time?: () => number
  /** Default `Math.random`. */
  readonly random?: () => number
}

const gapMs = 2000
const aliveMs = 3000
/** A lease that was not read back in this time is published again. */
const lostMs = 5000
/** Shares beyond this precision are of no use. */
const mostUnits = 1000
/** A change of wishes is published if it is at least this share of all. */
const notable = 0.1
/** Calls of so many milliseconds are counted. */
const countedMs = 5000
/** Calls that wait for so long show a backlog: then everything is wanted. */
const backlogMs = 2000
/** What may be wanted beyond what was used. */
const growth = 1.5
/** Replicas whose use of a budget is remembered. Those of periods that have passed go first. */
const mostKnown = 100_000
const precision = 1e-9

export function createSharedLimits(options: SharedLimitsOptions): LeaseHolder {
  const { replica, model, concurrency, requestsPerMinute, tokensPerMinute } = options
  const { now = () => performance.now(), time = Date.now, random = Math.random } = options
  const limited = [concurrency, requestsPerMinute, tokensPerMinute].filter((each) => each !== undefined)
  const units = Math.max(1, Math.floor(Math.min(mostUnits, ...limited)))
  const shares = limited.length > 0 ? createShares({ replica, units, random }) : undefined
  const terms = options.budget
  const budget = terms && createSharedBudget({ ...terms, model, time })
  const known = new Map<
    string,
    { readonly number: number; readonly uses: readonly BudgetUse[]; at: number }
  >()
  const calls = createMeter()
  const tokens = createMeter()
  let user: LimitUser = {
    ...{ running: 0, waiting: 0, waitsSince: Number.POSITIVE_INFINITY, nextTokens: 0 },
    serve() {},
  }
  let published:
    | { readonly at: number; readonly claim: Claim; readonly uses: readonly BudgetUse[] }
    | undefined
  let isPending = false
  let number = 0

  const share = () => shares?.usable(now()) ?? 1

  function demand(at: number): Demand {
    const { running, waiting, waitsSince, nextTokens } = user
    const least = Math.min(1, Math.max(1 / units, tokensPerMinute ? nextTokens / tokensPerMinute : 0))
    const inUse = concurrency ? running / concurrency : 0
    if (running + waiting === 0) return { wants: 0, least, inUse }
    const perMinute = (meter: Meter) => growth * meter.perMinute(at)
    const wants = Math.max(
      concurrency ? (running + waiting) / concurrency : 0,
      requestsPerMinute ? (perMinute(calls) + waiting) / requestsPerMinute : 0,
      tokensPerMinute ? (perMinute(tokens) + waiting * nextTokens) / tokensPerMinute : 0,
    )
    const hasBacklog = at - waitsSince >= backlogMs
    return { wants: hasBacklog ? 1 : Math.min(1, wants + 1 / units), least, inUse }
  }

  function isDue(claim: Claim, uses: readonly BudgetUse[], at: number): boolean {
    const isActive = claim.wants > 0 || claim.has > 0
    if (published === undefined) return isActive
    const { claim: old, uses: oldUses } = published
    const [use, oldUse] = [uses[0], oldUses[0]]
    return (
      claim.has !== old.has ||
      claim.wants > 0 !== old.wants > 0 ||
      Math.abs(claim.wants - old.wants) >= notable ||
      use?.period !== oldUse?.period ||
      use?.reserved !== oldUse?.reserved ||
      (isActive && at - published.at >= aliveMs)
    )
  }

  function lease(claim: Claim, budgets: readonly BudgetUseInit[]): LimitLeaseInit {
    number++
    return { model, replica, number, ...claim, budgets }
  }

  function heardOther({ replica: id, number, wants, least, has, budgets }: LimitLease): void {
    const before = known.get(id)
    if (before && before.number >= number) return
    if (!before && known.size >= mostKnown) forget()
    if (!before && known.size >= mostKnown) return
    const isActive = wants > 0 || has > 0
    known.set(id, { number, uses: budgets, at: now() })
    budget?.changed(before?.uses ?? [], budgets)
    shares?.heard(id, isActive ? { wants, least, has } : undefined, now())
  }

  /** Those that are gone, and whose use is of the past. */
  function forget(): void {
    const today = new Date(time()).toISOString()
    for (const [id, { uses, at }] of known)
      if (now() - at > expiryMs && !uses.some(({ period }) => today.startsWith(period))) {
        known.delete(id)
        budget?.changed(uses, [])
      }
  }

  const holder: LeaseHolder = {
    model,
    onNeeded: () => {},
    limits: {
      share,
      room: () => (concurrency ? Math.floor(share() * concurrency + precision) : Number.POSITIVE_INFINITY),
      admits: () => budget?.admits() ?? true,
      exhausted: () => budget?.exhausted(),
      begin(estimate) {
        calls.add(1, now())
        tokens.add(estimate, now())
        return budget?.begin(estimate) ?? (() => {})
      },
      attach(given) {
        user = given
      },
      needed: () => holder.onNeeded(),
    },
    next() {
      const at = now()
      const since = published ? at - published.at : Number.POSITIVE_INFINITY
      if (since < gapMs || (isPending && since < lostMs)) return undefined
      const asked = demand(at)
      const none = { wants: asked.wants, least: asked.least, has: 0 }
      const claim = shares?.plan(asked, at) ?? none
      const uses = budget?.plan(asked.wants > 0, shares?.others(at) ?? livingAt(at), at) ?? []
      if (!isPending && !isDue(claim, uses, at)) return undefined
      published = { at, claim, uses }
      isPending = true
      return lease(claim, uses)
    },
    last: () => lease({ wants: 0, least: 0, has: 0 }, budget?.plan(false, 0, now()) ?? []),
    heard(given) {
      if (!isValid(given)) return
      if (given.replica !== replica) heardOther(given)
      else if (given.number === number && published) {
        isPending = false
        shares?.confirmed(published.claim, published.at, now())
        budget?.confirmed(published.uses)
      }
      user.serve()
    },
    budget: () => terms && { ...terms, used: budget!.used() },
  }
  return holder

  function livingAt(at: number): number {
    return [...known.values()].filter((each) => at - each.at < expiryMs).length
  }
}

const isShare = (value: number) => value >= 0 && value <= 1
const isAmount = (value: number) => value >= 0 && value <= Number.MAX_SAFE_INTEGER

function isValid({ replica, number, wants, least, has, budgets }: LimitLease): boolean {
  return (
    replica.length > 0 &&
    replica.length <= 64 &&
    Number.isSafeInteger(number) &&
    [wants, least, has].every(isShare) &&
    budgets.length <= 2 &&
    budgets.every(
      ({ period, spent, reserved }) =>
        /^\d{4}-\d\d(-\d\d)?$/.test(period) && isAmount(spent) && isAmount(reserved) && spent <= reserved,
    )
  )
}

type Meter = ReturnType<typeof createMeter>

/** Counts what began in this and the last cell of time. */
function createMeter() {
  let cell = 0
  let [current, former] = [0, 0]

  function advance(at: number): void {
    const now = Math.floor(at / countedMs)
    if (now === cell) return
    former = now === cell + 1 ? current : 0
    current = 0
    cell = now
  }

  return {
    add(amount: number, at: number) {
      advance(at)
      current += amount
    },
    perMinute(at: number) {
      advance(at)
      return ((current + former) * 60_000) / (countedMs + (at % countedMs))
    },
  }
}
