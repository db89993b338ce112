// Lists cut into batches that fit a message, a request or a budget.

export interface BatchLimits<T> {
  /** Items of a batch. Default: no limit. */
  readonly maxItems?: number
  /** The sizes of a batch's items together, by `sizeOf`. An item that is larger than this has a batch of its own. Default: no limit. */
  readonly maxSize?: number
  readonly sizeOf?: (item: T) => number
}

/** The items in order, in batches as long as the limits allow; none of them empty. */
export function* batches<T>(items: readonly T[], limits: BatchLimits<T>): Generator<T[], void> {
  for (let start = 0; start < items.length; ) {
    const end = start + batchLength(items, limits, start)
    yield items.slice(start, end)
    start = end
  }
}

/** How many items, from `start` on, make the next batch: at least one when there is any. */
export function batchLength<T>(
  items: readonly T[],
  { maxItems = Number.POSITIVE_INFINITY, maxSize = Number.POSITIVE_INFINITY, sizeOf }: BatchLimits<T>,
  start = 0,
): number {
  const end = Math.min(items.length, start + maxItems)
  let size = 0
  for (let at = start; sizeOf && at < end; at++) {
    size += sizeOf(items[at]!)
    if (at > start && size > maxSize) return at - start
  }
  return end - start
}
