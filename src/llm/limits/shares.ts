// The share of a model's limits that this replica may use, among replicas that read each other's claims in the same order. The rules:
//   1. a replica uses a smaller share before it publishes it;
//   2. a larger share is a bid: it counts when it was read back, and all claims before it in the topic add up to at most 1 with it;
//   3. a share ends `leaseMs` after the last claim that was read back was published, and counts for the others until `expiryMs`
//      after they have read it.
// So the shares in use never add up to more than 1, whatever replicas wish and however their clocks differ: none is compared with
// another. How much each wishes is max-min fairness (water-filling): nobody gets more than it wants, and what is left is divided evenly.

/** What a replica publishes. Shares are from 0 to 1 of all limits. */
export interface Claim {
  /** What it could use now; 0 when it has no calls. */
  readonly wants: number
  /** The smallest share that is of use: that of one call. */
  readonly least: number
  /** What it uses at most. */
  readonly has: number
}

/** What the calls of this replica need. */
export type Demand = Pick<Claim, 'wants' | 'least'> & {
  /** The share of the calls that run: it cannot be given up at once. */
  readonly inUse: number
}

export interface Shares {
  /** The share that calls may use now. */
  usable(now: number): number
  /** What to claim next. A share that shrinks does so at once. */
  plan(demand: Demand, now: number): Claim
  /** A claim of `plan` whose publishing began at `at` was read back. */
  confirmed(claim: Claim, at: number, now: number): void
  /** The claim of another replica was read; `undefined` when it has left. */
  heard(replica: string, claim: Claim | undefined, now: number): void
  /** How many others were heard of lately. */
  others(now: number): number
}

export interface SharesOptions {
  /** The name of this replica. */
  readonly replica: string
  /** Shares are multiples of 1 / units: the number of calls that the scarcest limit takes. */
  readonly units: number
  /** From 0 up to 1. Default `Math.random`. */
  readonly random?: () => number
}

/** In milliseconds, of a clock that never goes back. */
export const leaseMs = 10_000
export const expiryMs = 15_000
/**
 * When there are more replicas than units, one that has a share gives it up after this time, or up to twice of it. It wants none until
 * so long after its last call.
 */
const turnMs = 300_000
const standBackMs = 10_000
/** More replicas are not heard. A replica that hears of so many claims nothing. */
export const maxReplicas = 1000
const precision = 1e-9

/** Times are in milliseconds. */
export function createShares({ replica, units, random = Math.random }: SharesOptions): Shares {
  const others = new Map<string, Claim & { readonly heardAt: number }>()
  let granted = 0
  let confirmedAt = Number.NEGATIVE_INFINITY
  let turnEnds = Number.POSITIVE_INFINITY
  let standsBackUntil = Number.NEGATIVE_INFINITY

  const usable = (now: number) => (now - confirmedAt < leaseMs ? granted : 0)

  function living(now: number): [string, Claim][] {
    for (const [id, { heardAt }] of others) if (now - heardAt >= expiryMs) others.delete(id)
    return [...others]
  }

  /** What the others leave. */
  const free = (now: number) => living(now).reduce((rest, [, { has }]) => rest - has, 1)

  /** Nobody's turn lasts forever when some replicas get nothing. */
  function takesTurn(isCrowded: boolean, inUse: number, now: number): boolean {
    if (now < standsBackUntil && inUse > 0) standsBackUntil = now + standBackMs
    if (!isCrowded || granted === 0) turnEnds = Number.POSITIVE_INFINITY
    else if (turnEnds === Number.POSITIVE_INFINITY) turnEnds = now + turnMs * (1 + random())
    else if (now >= turnEnds) standsBackUntil = now + standBackMs
    return now >= standsBackUntil
  }

  return {
    usable,
    plan({ wants, least, inUse }, now) {
      granted = usable(now)
      const claims = [...living(now), [replica, { wants, least, has: granted }] as const]
      const { units: fair, isCrowded } = fairUnits(new Map(claims), units)
      const isTurn = takesTurn(isCrowded, inUse, now)
      const target = isTurn && claims.length <= maxReplicas ? (fair.get(replica) ?? 0) / units : 0
      granted = Math.min(granted, target)
      const room = Math.floor(free(now) * units + precision) / units
      const has = Math.max(granted, Math.min(target, room))
      return { wants: isTurn ? wants : 0, least, has: Math.min(1, Math.max(has, inUse)) }
    },
    confirmed({ has }, at, now) {
      const held = usable(now)
      confirmedAt = at
      granted = has <= held || has <= free(now) + precision ? has : held
    },
    heard(id, claim, now) {
      if (claim === undefined) others.delete(id)
      else if (others.has(id) || living(now).length < maxReplicas) others.set(id, { ...claim, heardAt: now })
    },
    others: (now) => living(now).length,
  }
}

/** The units of each replica that wants some. `isCrowded`: there are not enough for all. */
function fairUnits(
  claims: ReadonlyMap<string, Claim>,
  units: number,
): { readonly units: ReadonlyMap<string, number>; readonly isCrowded: boolean } {
  const inUnits = (share: number) => Math.min(units, Math.max(1, Math.ceil(share * units - precision)))
  let rest = units
  const wishes: { id: string; least: number; more: number; isHolder: boolean }[] = []
  for (const [id, { wants, least, has }] of claims) {
    const fewest = inUnits(least)
    if (wants > 0)
      wishes.push({ id, least: fewest, more: Math.max(0, inUnits(wants) - fewest), isHolder: has > 0 })
    // Its last calls still run.
    else if (has > 0) rest = Math.max(0, rest - inUnits(has))
  }
  wishes.sort((a, b) => Number(b.isHolder) - Number(a.isHolder) || (a.id < b.id ? -1 : 1))
  const served = wishes.filter(({ least }) => {
    if (least > rest) return false
    rest -= least
    return true
  })
  served.sort((a, b) => a.more - b.more || (a.id < b.id ? -1 : 1))
  const fair = new Map(
    served.map(({ id, least, more }, index): [string, number] => {
      const extra = Math.min(more, Math.floor(rest / (served.length - index)))
      rest -= extra
      return [id, least + extra]
    }),
  )
  return { units: fair, isCrowded: served.length < wishes.length }
}
