// A budget of a day or month that replicas share. A replica begins calls only while it has some of the budget reserved, and all
// reservations add up to at most the budget: they are bids, as shares are (shares.ts). So only calls in flight may pass it. What a
// killed replica had reserved counts as spent. Of a budget of tokens, a token costs 1.
import { GraphmillError } from '../../errors.ts'
import type { Usage } from '../llm.ts'
import { costOf, type Price } from './prices.ts'

/** The periods are days and months in UTC. */
export interface BudgetTerms {
  readonly amount: number
  readonly unit: 'usd' | 'tokens'
  readonly period: 'day' | 'month'
}

/** What a replica has used of the budget in a period. */
export interface BudgetUse {
  /** `2026-11-23` or `2026-11`. */
  readonly period: string
  readonly spent: number
  /** At least what is spent. */
  readonly reserved: number
}

export interface SharedBudget {
  /** Whether one more call may begin. */
  admits(): boolean
  /** Why no call can begin: nothing is left that could be reserved. */
  exhausted(): GraphmillError | undefined
  /** A call begins, with so many tokens by `estimateTokens`. Call the result when it has ended, with what it used if that is known. */
  begin(tokens: number): (end: CallEnd) => void
  /** What to publish of this period and the one before: with calls, more is reserved in time; without, what is left is given back. */
  plan(hasCalls: boolean, replicas: number, now: number): readonly BudgetUse[]
  /** What `plan` returned was read back. */
  confirmed(uses: readonly BudgetUse[]): void
  /** What another replica has used changes. */
  changed(before: readonly BudgetUse[], after: readonly BudgetUse[]): void
  /** By all replicas, in this period. */
  used(): number
}

export interface CallEnd {
  /** Whether the model has begun to answer: otherwise nothing was spent. */
  readonly accepted: boolean
  readonly usage?: Usage | undefined
}

interface Account {
  readonly period: string
  spent: number
  /** The expected cost of calls in flight. */
  open: number
  /** Up to this calls may begin. */
  granted: number
}

export interface SharedBudgetOptions extends BudgetTerms {
  readonly model: string
  readonly price: Price
  /** In milliseconds since 1970. */
  readonly time: () => number
}

/** A reservation is at most this share of the budget, or of what is spent in so many seconds if that is more. */
const sliceShare = 0.01
const sliceSeconds = 10
/** The length of a reply, as a share of its prompt, before any is known. */
const replyShare = 0.25
const precision = 1e-9
/** Calls look so often whether there is a budget again, in milliseconds. */
const againMs = 30_000
/** The price of a million tokens in tokens. */
export const tokenPrice: Price = { prompt: 1_000_000, completion: 1_000_000 }

/** Reads `20/day`, `300/month`, `5000000tokens/day`. Throws `configuration_invalid`. */
export function readBudget(text: string): BudgetTerms {
  const [, digits, tokens, period] = /^(\d+(?:\.\d+)?) ?(tokens)?\/(day|month)$/.exec(text.trim()) ?? []
  const amount = Number(digits)
  if (!(amount > 0) || !Number.isFinite(amount))
    throw new GraphmillError(
      'configuration_invalid',
      `budget: must be an amount above 0 for a day or month, as in 20/day or 5000000tokens/month, not ${JSON.stringify(text)}.`,
    )
  return { amount, unit: tokens ? 'tokens' : 'usd', period: period as BudgetTerms['period'] }
}

export function createSharedBudget(options: SharedBudgetOptions): SharedBudget {
  const { amount, unit, period: length, model, price, time } = options
  /** Reserved by other replicas, by period. */
  const others = new Map<string, number>()
  let account: Account = { period: '', spent: 0, open: 0, granted: 0 }
  let before = account
  /** Moving averages: what a call costs by its estimate, and how many times its estimate it costs. */
  let callCost = 0
  let ratio = 1
  let rate = 0
  let last = { at: 0, spent: 0 }

  function current(): Account {
    const period = new Date(time()).toISOString().slice(0, length === 'day' ? 10 : 7)
    if (period === account.period) return account
    // A clock that is set back over midnight goes on with what was spent then. What is not spent is not held for a return.
    account.granted = 0
    const next = period === before.period ? before : { period, spent: 0, open: 0, granted: 0 }
    before = account
    account = next
    last = { ...last, spent: used(account) }
    return account
  }

  const used = ({ spent, open }: Account) => spent + open
  const mine = (each: Account) => Math.max(each.granted, used(each))
  const free = (each: Account) => amount - (others.get(each.period) ?? 0) - mine(each)
  const costs = (promptTokens: number, completionTokens: number) =>
    costOf({ promptTokens, completionTokens }, price) ?? 0

  function actualCost({ usage }: CallEnd, expected: number): number {
    if (unit === 'tokens') return usage?.totalTokens ?? expected
    const { promptTokens, completionTokens } = usage ?? {}
    if (promptTokens == null || completionTokens == null) return expected
    return costs(promptTokens, completionTokens)
  }

  function slice(replicas: number, left: number): number {
    const usual = Math.max(sliceShare * amount, sliceSeconds * rate, callCost)
    return Math.max(Math.min(left / (replicas + 1), usual), Math.min(left, callCost), 0)
  }

  function measure(each: Account, now: number): void {
    const seconds = (now - last.at) / 1000
    if (seconds < 1) return
    rate = Math.max(0.8 * rate, (used(each) - last.spent) / seconds)
    last = { at: now, spent: used(each) }
  }

  const useOf = (each: Account, reserved = mine(each)): BudgetUse => ({
    period: each.period,
    spent: each.spent,
    reserved: Math.max(reserved, used(each)),
  })

  return {
    admits() {
      const now = current()
      return used(now) < now.granted
    },
    exhausted() {
      if (this.admits() || free(current()) > precision * amount) return undefined
      const date = new Date(time())
      const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
      const next = length === 'day' ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1)
      return new GraphmillError(
        'budget_exhausted',
        `The budget of ${amount}${unit === 'tokens' ? ' tokens' : ''} a ${length} for ${model} is used up until ${new Date(next).toISOString()}.`,
        { retryAfterMs: Math.min(againMs, next - date.getTime()) },
      )
    },
    begin(tokens) {
      const each = current()
      const estimate = costs(tokens, replyShare * tokens)
      const expected = ratio * estimate
      callCost = callCost === 0 ? expected : 0.9 * callCost + 0.1 * expected
      each.open += expected
      return (end) => {
        each.open = Math.max(0, each.open - expected)
        if (!end.accepted) return
        const actual = actualCost(end, expected)
        each.spent += actual
        if (estimate > 0) ratio = 0.9 * ratio + (0.1 * actual) / estimate
      }
    },
    plan(hasCalls, replicas, now) {
      const each = current()
      measure(each, now)
      if (!hasCalls) each.granted = Math.min(each.granted, used(each))
      const left = Math.max(0, free(each))
      const wanted = slice(replicas, left)
      const isShort = hasCalls && each.granted - used(each) < wanted / 2
      const past = before.spent > 0 ? [useOf(before, used(before))] : []
      return [useOf(each, mine(each) + (isShort ? wanted : 0)), ...past]
    },
    confirmed([use]) {
      const each = current()
      if (use?.period !== each.period || use.reserved <= each.granted) return
      if ((others.get(each.period) ?? 0) + use.reserved <= amount * (1 + precision))
        each.granted = use.reserved
    },
    changed(former, now) {
      for (const { period, reserved } of former) others.set(period, (others.get(period) ?? 0) - reserved)
      for (const { period, reserved } of now) others.set(period, (others.get(period) ?? 0) + reserved)
    },
    used() {
      const each = current()
      return (others.get(each.period) ?? 0) + each.spent
    },
  }
}
