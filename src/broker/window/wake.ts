// Lets one loop sleep until something it looks at has changed. Look first, then wait, without an await in between.

export interface Wake {
  /** Resolves at the next `notify`. */
  wait(): Promise<void>
  notify(): void
}

export function createWake(): Wake {
  let next: PromiseWithResolvers<void> | undefined
  return {
    wait() {
      next ??= Promise.withResolvers<void>()
      return next.promise
    },
    notify() {
      next?.resolve()
      next = undefined
    },
  }
}
